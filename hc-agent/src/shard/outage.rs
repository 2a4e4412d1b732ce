// SPDX-License-Identifier: Apache-2.0
//! Handles outages of all uplinks, and their end.
//!
//! A probe without an answer while no uplink works says nothing about its target. Whether
//! an uplink worked is known only a moment after the probe has ended. Until then, an
//! outcome that contradicts the state of its check waits, as if the probe took longer.

use std::ops::Range;
use std::sync::Arc;

use super::core::Core;
use super::deferred::Deferred;
use crate::schedule::grid;
use crate::uplinks::judgement::{ANSWER_MAX_MS, Judgement, Outlook, Since, judge};

impl Core {
    /// Whether outcomes wait for the agent's report.
    pub(super) fn waits(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Set the known state of uplinks. Returns, for IPv4 and IPv6, whether all checks
    /// must be probed again because uplinks have returned at another time than known
    /// before.
    pub(super) fn set_outlook(
        &mut self,
        outlook: [Option<Outlook>; 2],
        tick_ms: u64,
    ) -> [bool; 2] {
        let since = |known: Option<Outlook>| known.and_then(|known| known.since);
        let number = |since: Since| since.ns;
        let before = self.outlook.map(|known| since(known).map(number));
        self.outlook = outlook;
        self.judge_deferred(tick_ms);
        let now = outlook.map(|known| since(known).map(number));
        [0, 1].map(|family| now[family].is_some() && now[family] != before[family])
    }

    /// Judge waiting outcomes. An outcome that has waited too long counts.
    pub(super) fn judge_deferred(&mut self, tick_ms: u64) {
        for waiting in std::mem::take(&mut self.deferred) {
            let known = self.outlook(&waiting.check);
            let mut judgement = judge(known, waiting.started_ms, waiting.ended_ms);
            if judgement == Judgement::Wait {
                if tick_ms < waiting.ended_ms + ANSWER_MAX_MS {
                    self.deferred.push(waiting);
                    continue;
                }
                judgement = Judgement::Count;
            }
            let Deferred { number, check, .. } = waiting;
            let Some(slot) = &mut self.slots[number as usize] else {
                continue;
            };
            if !Arc::ptr_eq(&slot.check, &check) {
                continue;
            }
            slot.running = false;
            if judgement == Judgement::Count {
                let started_ms = waiting.started_ms;
                self.take(number, check, waiting.outcome, started_ms, tick_ms);
            } else {
                self.discard_outage(number, tick_ms);
            }
        }
    }

    /// Discard an outcome without a working uplink. The next probe is armed already, or
    /// follows once an uplink works.
    pub(super) fn discard_outage(&mut self, number: u32, tick_ms: u64) {
        self.stats.discarded_uplink += 1;
        let Some(slot) = &mut self.slots[number as usize] else {
            return;
        };
        let overdue = std::mem::take(&mut slot.overdue);
        let (key, delay_ms) = (slot.check.key, slot.delay_ms());
        let again = self.outlook[usize::from(slot.check.target.is_ipv6())]
            .is_some_and(|known| known.since.is_some());
        if (overdue || again) && !self.settings.once {
            let at = grid::retry(key, delay_ms, self.all, tick_ms);
            self.arm_earlier(number, at);
        }
    }

    /// Probe the checks of some slots soon if they are of a family whose uplinks have
    /// returned: their states date from before the outage.
    pub(super) fn probe_again(
        &mut self,
        slots: Range<usize>,
        families: [bool; 2],
        tick_ms: u64,
    ) {
        for at in slots {
            let Some(Some(slot)) = self.slots.get_mut(at) else {
                continue;
            };
            if !families[usize::from(slot.check.target.is_ipv6())] {
                continue;
            }
            slot.settled = false;
            if slot.running {
                slot.overdue = true;
                continue;
            }
            let at_ms = grid::first(slot.check.key, slot.delay_ms(), self.all, tick_ms);
            self.arm_earlier(u32::try_from(at).unwrap_or(u32::MAX), at_ms);
        }
    }

    fn arm_earlier(&mut self, number: u32, at_ms: u64) {
        if self
            .wheel
            .deadline(number)
            .is_none_or(|armed| at_ms < armed)
        {
            self.wheel.arm(number, at_ms);
        }
    }
}

#[cfg(test)]
#[path = "outage_tests.rs"]
mod tests;
