// SPDX-License-Identifier: Apache-2.0
//! The state of a shard: check slots, deadlines and counts; processes outcomes of probes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::check_slot::{CheckSlot, microseconds};
use super::deferred::Deferred;
use super::patience::Patience;
use super::probe_stats::ProbeStats;
use super::report::{Discard, Discarded, Event, discard};
use crate::config::Check;
use crate::key::Key;
use crate::probe::{Failure, ProbeOutcome};
use crate::schedule::grid::{self, NO_STRETCH};
use crate::schedule::wheel::Wheel;
use crate::state::{Change, State};
use crate::uplinks::judgement::{Judgement, Outlook, had_uplink, judge};

/// A probe later than this is put off, as probably all others are late, too.
const FAR_TOO_LATE_MS: u64 = 1000;
/// Lower limit of concurrent probes, even when descriptors run out.
const LEAST_IN_FLIGHT: usize = 8;

/// Settings of a shard.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Limit of concurrent probes.
    pub max_in_flight: usize,
    /// Limit of additional connections that stay open after their result, so that
    /// servers may finish their answers.
    pub max_partings: usize,
    /// Interval while a check is not steadily up.
    pub fast_interval_ms: Option<u64>,
    /// Probe each check once, as soon as there is room.
    pub once: bool,
}

/// The state behind the lock.
pub(crate) struct Core {
    pub(super) settings: Settings,
    pub(crate) slots: Vec<Option<CheckSlot>>,
    free: Vec<u32>,
    /// Slots by key; filled only during a reload.
    index: HashMap<Key, u32>,
    pub(super) wheel: Wheel,
    pub(super) in_flight: usize,
    /// Current limit of concurrent probes; lower than the setting after a shortage.
    pub(super) room: usize,
    /// Whether the loop waits for room.
    pub(super) blocked: bool,
    /// When the loop wakes up by itself.
    pub(super) wake_ms: u64,
    /// Probes per million seconds, by the intervals in the file.
    pub(super) demand: u64,
    /// Factor on all intervals, in thousandths.
    pub(super) stretch_permille: u32,
    pub(super) events: Vec<Event>,
    pub(super) stats: ProbeStats,
    pub(super) discarded: Option<Discarded>,
    pub(super) counts: [usize; 3],
    /// Number of checks of all shards, over which bursts are spread.
    pub(super) all: usize,
    /// Known state of uplinks, of IPv4 and of IPv6.
    pub(super) outlook: [Option<Outlook>; 2],
    /// Outcomes that wait for the agent's report on uplinks.
    pub(super) deferred: Vec<Deferred>,
    /// Checks of members that are moving.
    pub(super) patience: Patience,
    /// A probe or the thread panicked: this state is unreliable.
    pub(super) died: bool,
}

impl Core {
    /// A shard without checks.
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            room: settings.max_in_flight,
            settings,
            slots: Vec::new(),
            free: Vec::new(),
            index: HashMap::new(),
            wheel: Wheel::new(0),
            in_flight: 0,
            blocked: false,
            wake_ms: 0,
            demand: 0,
            stretch_permille: NO_STRETCH,
            events: Vec::new(),
            stats: ProbeStats::default(),
            discarded: None,
            counts: [0; 3],
            all: 0,
            outlook: [None; 2],
            deferred: Vec::new(),
            patience: Patience::default(),
            died: false,
        }
    }

    /// Prepare for a reload of `all` checks on the node, over which bursts are spread.
    pub(crate) fn begin_reload(&mut self, all: usize) {
        self.all = all;
        let slots = self.slots.iter().zip(0..);
        let taken = slots.filter_map(|(slot, at)| Some((slot.as_ref()?.check.key, at)));
        self.index = taken.collect();
    }

    /// Free the memory that only a reload needs.
    pub(crate) fn end_reload(&mut self) {
        self.index = HashMap::new();
    }

    /// The state of a check.
    pub(super) fn state(&self, number: u32) -> State {
        let slot = self.slots.get(number as usize).and_then(Option::as_ref);
        slot.map_or(State::Unknown, |slot| slot.machine.state())
    }

    /// Number of checks.
    pub(crate) fn checks(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Add a check, or keep it if it exists. Returns whether it is new.
    pub(crate) fn put(
        &mut self,
        check: Arc<Check>,
        reload: u32,
        state: impl FnOnce() -> Option<State>,
        tick_ms: u64,
    ) -> bool {
        let key = check.key;
        if let Some(number) = self.index.get(&key).copied() {
            if let Some(slot) = &mut self.slots[number as usize]
                && slot.check == check
            {
                slot.reload = reload;
                return false;
            }
            self.remove(number);
        }
        let slot = CheckSlot::new(check, state(), reload);
        self.counts[slot.machine.state() as usize] += 1;
        let delay_ms = slot.delay_ms();
        self.demand += demand(&slot);
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.slots[number as usize] = Some(slot);
        self.index.insert(key, number);
        let at = if self.settings.once {
            tick_ms
        } else {
            grid::first(key, delay_ms, self.all, tick_ms)
        };
        self.wheel.arm(number, at);
        true
    }

    /// Remove the checks of some slots that a reload lacks. Returns their number.
    pub(crate) fn sweep(&mut self, slots: std::ops::Range<usize>, reload: u32) -> usize {
        let mut removed = 0;
        for number in slots {
            let slot = self.slots.get(number).and_then(Option::as_ref);
            if slot.is_some_and(|slot| slot.reload != reload) {
                self.remove(u32::try_from(number).unwrap_or(u32::MAX));
                removed += 1;
            }
        }
        removed
    }

    fn remove(&mut self, number: u32) {
        self.wheel.disarm(number);
        if let Some(slot) = self.slots[number as usize].take() {
            self.counts[slot.machine.state() as usize] -= 1;
            self.demand -= demand(&slot);
            self.index.remove(&slot.check.key);
            self.free.push(number);
        }
    }

    /// Start a probe and arm the next one. `None` if it must not run now.
    pub(super) fn start(
        &mut self,
        number: u32,
        due_ms: u64,
        tick_ms: u64,
    ) -> Option<Arc<Check>> {
        let slot = self.slots[number as usize].as_mut()?;
        if slot.running {
            slot.overdue = true;
            return None;
        }
        let late_ms = tick_ms - due_ms.min(tick_ms);
        if !self.settings.once {
            let key = slot.check.key;
            slot.late_us = microseconds(Duration::from_millis(late_ms));
            self.stats.count_start(slot.late_us);
            if late_ms > FAR_TOO_LATE_MS && !slot.put_off {
                slot.put_off = true;
                self.stats.put_off += 1;
                let at = grid::first(key, slot.delay_ms(), self.all, tick_ms);
                self.wheel.arm(number, at.max(tick_ms + 1));
                return None;
            }
            slot.put_off = false;
            let interval_ms =
                slot.interval_ms(self.settings.fast_interval_ms, self.stretch_permille);
            self.wheel
                .arm(number, grid::next(key, interval_ms, tick_ms));
        }
        slot.running = true;
        self.in_flight += 1;
        self.stats.max_in_flight = self.stats.max_in_flight.max(self.in_flight);
        Some(Arc::clone(&slot.check))
    }

    /// Process the outcome of a probe, with the lateness of this process meanwhile.
    pub(super) fn finish(
        &mut self,
        number: u32,
        check: Arc<Check>,
        outcome: ProbeOutcome,
        lateness: Duration,
        tick_ms: u64,
    ) {
        self.in_flight -= 1;
        let known = self.outlook(&check);
        let Some(slot) = &mut self.slots[number as usize] else {
            return;
        };
        if !Arc::ptr_eq(&slot.check, &check) {
            return;
        }
        slot.running = false;
        slot.remember(&outcome);
        self.stats
            .count_outcome(check.probe.name(), outcome.reason());
        let lateness = lateness.max(outcome.overrun);
        if let Err(failure) = &outcome.result
            && let Some(discard) = discard(failure, lateness, &check)
        {
            slot.overdue = false;
            self.discard(number, &check, failure, discard, lateness, tick_ms);
            return;
        }
        if matches!(outcome.result, Err(Failure::ErrorsLimited)) {
            self.stats.discarded_silence += 1;
            if std::mem::take(&mut slot.overdue) {
                self.wheel.arm(number, tick_ms);
            }
            return;
        }
        // A lower bound of the start.
        let started_ms = tick_ms.saturating_sub(grid::milliseconds(outcome.took) + 1);
        if outcome.is_silence(&check) {
            match judge(known, started_ms, tick_ms) {
                Judgement::Count => {}
                Judgement::Discard => {
                    self.discard_outage(number, tick_ms);
                    return;
                }
                Judgement::Wait => {
                    if slot.machine.doubts(outcome.result.is_ok()) {
                        slot.running = true;
                        self.deferred.push(Deferred {
                            number,
                            check,
                            outcome,
                            started_ms,
                            ended_ms: tick_ms,
                        });
                        return;
                    }
                }
            }
        }
        self.take(number, check, outcome, started_ms, tick_ms);
    }

    /// Known state of the uplinks that a check needs.
    pub(super) fn outlook(&self, check: &Check) -> Option<Outlook> {
        self.outlook[usize::from(check.target.is_ipv6())]
    }

    /// Process a valid outcome.
    pub(super) fn take(
        &mut self,
        number: u32,
        check: Arc<Check>,
        outcome: ProbeOutcome,
        started_ms: u64,
        tick_ms: u64,
    ) {
        let known = self.outlook(&check);
        let Some(slot) = &mut self.slots[number as usize] else {
            return;
        };
        let overdue = std::mem::take(&mut slot.overdue);
        if overdue {
            self.wheel.arm(number, tick_ms);
        }
        let from = slot.machine.state();
        let success = outcome.result.is_ok();
        let was_steady = slot.machine.is_steadily_up();
        let bears = self.patience.bears(check.key, success, started_ms, tick_ms);
        let change = if bears && from != State::Down {
            slot.machine.bear();
            Change::Nothing
        } else {
            slot.machine.observe(success, check.rise, check.fall)
        };
        slot.settled |= slot.machine.is_settled() && had_uplink(known, started_ms);
        if self.settings.fast_interval_ms.is_some()
            && was_steady
            && !success
            && !overdue
            && !self.settings.once
        {
            // The state is in doubt: bring the next probe forward.
            let at = tick_ms
                + slot.interval_ms(self.settings.fast_interval_ms, self.stretch_permille);
            if self.wheel.deadline(number).is_none_or(|armed| at < armed) {
                self.wheel.arm(number, at);
            }
        }
        if change == Change::Nothing {
            return;
        }
        let to = slot.machine.state();
        self.counts[from as usize] -= 1;
        self.counts[to as usize] += 1;
        self.events.push(Event {
            check,
            from,
            to,
            outcome,
        });
    }

    /// Count a failure caused by this node, and probe again soon.
    fn discard(
        &mut self,
        number: u32,
        check: &Check,
        failure: &Failure,
        discard: Discard,
        lateness: Duration,
        tick_ms: u64,
    ) {
        match discard {
            Discard::LocalShortage => self.stats.discarded_shortage += 1,
            Discard::LocalDelay => self.stats.discarded_delay += 1,
        }
        if failure.is_shortage() {
            // Fewer probes need fewer resources.
            let fewer = (self.in_flight * 7 / 8).max(LEAST_IN_FLIGHT);
            self.room = self.room.min(fewer);
        }
        let key = check.key;
        self.discarded.get_or_insert_with(|| Discarded {
            key,
            lateness,
            text: failure.to_string(),
        });
        if !self.settings.once {
            let delay_ms = grid::milliseconds(check.delay);
            let at = grid::retry(key, delay_ms, self.all, tick_ms);
            self.wheel.arm(number, at);
        }
    }
}

/// Probes of a check per million seconds.
fn demand(slot: &CheckSlot) -> u64 {
    1_000_000_000 / slot.delay_ms().max(1)
}

#[cfg(test)]
#[path = "core_tests.rs"]
pub(super) mod tests;
