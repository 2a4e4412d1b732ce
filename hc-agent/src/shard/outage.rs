// SPDX-License-Identifier: Apache-2.0
//! What a shard does while its node has no working uplink, and when it has one again.
//!
//! A probe that hears nothing while no uplink works says nothing about its target. How
//! far that was so is known a moment later than the probe ends: an outcome that speaks
//! against the state of its check waits until then, as if the probe lasted longer.

use std::ops::Range;
use std::sync::Arc;

use super::core::Core;
use super::deferred::Deferred;
use crate::schedule::grid;
use crate::uplinks::judgement::{ANSWER_MAX_MS, Judgement, Outlook, Since, judge};

impl Core {
    /// Whether outcomes wait for what the agent says.
    pub(super) fn waits(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Take what is known about uplinks now. Returns, for IPv4 and IPv6, whether all
    /// checks are to be probed again: uplinks work since another moment than before.
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

    /// Judge what waits. What has waited for too long counts.
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

    /// Forget an outcome of a check that had no uplink. Its next probe is armed, or
    /// comes when there is one.
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

    /// Probe the checks of some slots soon, those of families whose uplinks work again:
    /// what is known of them is from before.
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
