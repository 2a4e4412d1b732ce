// SPDX-License-Identifier: Apache-2.0
//! What a shard knows: slots, deadlines, counts, and what comes of a probe.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use crate::config::Check;
use crate::key::Key;
use crate::lateness::explains;
use crate::probe::{Failure, Outcome};
use crate::schedule::{self, NO_STRETCH};
use crate::slot::{Slot, microseconds};
use crate::state::{Change, State};
use crate::tally::Tally;
use crate::wheel::Wheel;

/// A probe that is later than this is put off: with it are probably all others.
const FAR_TOO_LATE: u64 = 1000;
/// Fewest probes at a time, however short of descriptors this node is.
const LEAST_IN_FLIGHT: usize = 8;

/// Settings of a shard.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Probes at a time.
    pub max_in_flight: usize,
    /// Interval in milliseconds while a check is not steadily up.
    pub fast_interval: Option<u64>,
    /// Probe each check once, as soon as there is room.
    pub once: bool,
}

/// A state that has changed, or is sure now.
#[derive(Debug)]
pub struct Event {
    /// What was probed.
    pub check: Arc<Check>,
    /// Its state before.
    pub from: State,
    /// Its state now.
    pub to: State,
    /// What the probe has found out.
    pub outcome: Outcome,
}

/// A failure that counts for nothing.
#[derive(Clone, Debug)]
pub struct Void {
    /// The check.
    pub key: Key,
    /// Own lateness.
    pub late: Duration,
    /// What failed.
    pub text: String,
}

/// What the engine takes away now and then.
#[derive(Default)]
pub struct News {
    /// Numbers since the last time.
    pub tally: Tally,
    /// One of the failures that count for nothing.
    pub void: Option<Void>,
    /// Age of the oldest probe that is due and cannot start, in microseconds.
    pub waiting: u32,
    /// Probes now.
    pub in_flight: usize,
    /// Probes at a time, at most.
    pub room: usize,
    /// Checks by state.
    pub counts: [usize; 3],
    /// Probes that should start in a million seconds, with intervals as they are.
    pub wanted: u64,
}

/// All that is behind the lock.
pub(crate) struct Core {
    pub(super) settings: Settings,
    pub(crate) slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Slots by key, while a reload needs them.
    index: HashMap<Key, u32>,
    pub(super) wheel: Wheel,
    pub(super) in_flight: usize,
    /// Probes at a time now: fewer than the settings say after descriptors ran out.
    pub(super) room: usize,
    /// The loop waits for room.
    pub(super) blocked: bool,
    /// When the loop comes again by itself.
    pub(super) wake: u64,
    /// Probes in a million seconds, by what the checks ask for.
    pub(super) demand: u64,
    pub(super) stretch: u32,
    pub(super) events: Vec<Event>,
    pub(super) tally: Tally,
    pub(super) void: Option<Void>,
    pub(super) counts: [usize; 3],
    /// Checks of all shards: how wide herds are spread.
    all: usize,
    /// A probe or the thread died: nothing here can be relied on.
    pub(super) died: bool,
}

impl Core {
    /// Without checks.
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
            wake: 0,
            demand: 0,
            stretch: NO_STRETCH,
            events: Vec::new(),
            tally: Tally::default(),
            void: None,
            counts: [0; 3],
            all: 0,
            died: false,
        }
    }

    /// Prepare for a reload. Herds are spread as wide as all checks of the node need.
    pub(crate) fn begin_reload(&mut self, all: usize) {
        self.all = all;
        let slots = self.slots.iter().zip(0..);
        let taken = slots.filter_map(|(slot, at)| Some((slot.as_ref()?.check.key, at)));
        self.index = taken.collect();
    }

    /// Give back what only a reload needs.
    pub(crate) fn end_reload(&mut self) {
        self.index = HashMap::new();
    }

    /// Number of checks.
    pub(crate) fn checks(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Take a check, or keep it if it is the same. Returns whether it is new.
    pub(crate) fn put(
        &mut self,
        check: Arc<Check>,
        reload: u32,
        state: impl FnOnce() -> Option<State>,
        tick: u64,
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
        let slot = Slot::new(check, state(), reload);
        self.counts[slot.machine.state() as usize] += 1;
        let delay = slot.delay();
        self.demand += demand(&slot);
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.slots[number as usize] = Some(slot);
        self.index.insert(key, number);
        let at = if self.settings.once {
            tick
        } else {
            schedule::first(key, delay, self.all, tick)
        };
        self.wheel.arm(number, at);
        true
    }

    /// Forget the checks of some slots that a reload did not name. Returns how many.
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

    /// Count a probe in and arm the next one. `None` if it is not to run now.
    pub(super) fn start(
        &mut self,
        number: u32,
        due: u64,
        tick: u64,
    ) -> Option<Arc<Check>> {
        let slot = self.slots[number as usize].as_mut()?;
        if slot.running {
            slot.overdue = true;
            return None;
        }
        let late = tick - due.min(tick);
        if !self.settings.once {
            let key = slot.check.key;
            slot.late = microseconds(Duration::from_millis(late));
            self.tally.start(slot.late);
            if late > FAR_TOO_LATE && !slot.put_off {
                slot.put_off = true;
                self.tally.put_off += 1;
                let at = schedule::first(key, slot.delay(), self.all, tick);
                self.wheel.arm(number, at.max(tick + 1));
                return None;
            }
            slot.put_off = false;
            let interval = slot.interval(self.settings.fast_interval, self.stretch);
            self.wheel.arm(number, schedule::next(key, interval, tick));
        }
        slot.running = true;
        self.in_flight += 1;
        self.tally.most_in_flight = self.tally.most_in_flight.max(self.in_flight);
        Some(Arc::clone(&slot.check))
    }

    pub(super) fn finish(
        &mut self,
        number: u32,
        check: Arc<Check>,
        outcome: Outcome,
        late: Duration,
        tick: u64,
    ) {
        self.in_flight -= 1;
        let Some(slot) = &mut self.slots[number as usize] else {
            return;
        };
        if !Arc::ptr_eq(&slot.check, &check) {
            return;
        }
        slot.running = false;
        let overdue = std::mem::take(&mut slot.overdue);
        slot.remember(&outcome);
        self.tally.probed(check.kind.name(), outcome.reason());
        let late = late.max(outcome.overrun);
        if let (Err(failure), Some(local)) =
            (&outcome.result, void(&outcome, late, &check))
        {
            if local {
                self.tally.void_local += 1;
                if is_shortage(failure) {
                    // Fewer probes need less of it.
                    let fewer = (self.in_flight * 7 / 8).max(LEAST_IN_FLIGHT);
                    self.room = self.room.min(fewer);
                }
            } else {
                self.tally.void_late += 1;
            }
            let (key, text) = (check.key, failure.to_string());
            self.void.get_or_insert(Void { key, late, text });
            if !self.settings.once {
                let delay = schedule::milliseconds(check.delay);
                let at = schedule::retry(key, delay, self.all, tick);
                self.wheel.arm(number, at);
            }
            return;
        }
        if overdue {
            self.wheel.arm(number, tick);
        }
        let from = slot.machine.state();
        let success = outcome.result.is_ok();
        let was_steady = slot.machine.is_steadily_up();
        let change = slot.machine.observe(success, check.rise, check.fall);
        if self.settings.fast_interval.is_some()
            && was_steady
            && !success
            && !overdue
            && !self.settings.once
        {
            // In doubt now: the next probe is not one whole interval away.
            let at = tick + slot.interval(self.settings.fast_interval, self.stretch);
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
}

/// Probes of a check in a million seconds.
fn demand(slot: &Slot) -> u64 {
    1_000_000_000 / slot.delay().max(1)
}

/// Whether something of this node that probes share has run out.
fn is_shortage(failure: &Failure) -> bool {
    let Failure::Local(error) = failure else {
        return false;
    };
    matches!(
        error.raw_os_error().map(Errno::from_raw_os_error),
        Some(
            Errno::MFILE
                | Errno::NFILE
                | Errno::NOBUFS
                | Errno::NOMEM
                | Errno::ADDRNOTAVAIL
                | Errno::AGAIN
        )
    )
}

/// Why an outcome tells nothing about its target, if so: `Some(true)` if this node was
/// short of something, `Some(false)` if it was late.
fn void(outcome: &Outcome, late: Duration, check: &Check) -> Option<bool> {
    match outcome.result {
        Err(Failure::Local(_)) => Some(true),
        // A server may also close because we were too slow to ask.
        Err(Failure::Timeout(_) | Failure::Closed(_))
            if explains(late, check.timeout) =>
        {
            Some(false)
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
