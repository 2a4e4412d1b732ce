// SPDX-License-Identifier: Apache-2.0
//! Results that depend on several checks: conditions, and groups, which guard against
//! failures of this node's own network.
//!
//! A *condition* is up if all its checks are up, down if one is down, and unknown
//! otherwise; it keeps a known state until the next known one. A *group* is in panic
//! while too few of its keys (checks or conditions) are not down. During a panic no key
//! of it is reported down, and the handler keeps the states it has. Keys that come up
//! are always reported.

use std::collections::HashMap;

use crate::config::{Condition, Group};
use crate::key::Key;
use crate::state::State;
use crate::verdict::Verdict;

/// Action that follows from an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Report to the handler.
    Report(Key, Verdict),
    /// A group enters or leaves panic.
    Panic {
        /// Its name.
        group: Box<str>,
        /// True if it enters panic.
        on: bool,
        /// Keys that are down.
        down: usize,
        /// All keys.
        keys: usize,
    },
}

struct Guard {
    group: Group,
    down: usize,
    panic: bool,
}

impl Guard {
    fn wants_panic(&self) -> bool {
        let keys = self.group.keys.len();
        (keys - self.down) * 100 < usize::from(self.group.panic_percent) * keys
    }
}

/// Evaluates all conditions and groups.
#[derive(Default)]
pub struct Aggregator {
    conditions: Vec<Condition>,
    /// Indexes of the conditions that contain a check.
    joined: HashMap<Key, Vec<u32>>,
    guards: Vec<Guard>,
    /// Indexes of the groups that contain a key.
    guarded: HashMap<Key, Vec<u32>>,
    /// The observed verdict of each key in a condition or group.
    truth: HashMap<Key, Verdict>,
    /// Keys that are down but not reported down, with the reported state.
    withheld: HashMap<Key, State>,
}

impl Aggregator {
    /// Replace conditions and groups. `known` returns the queue's verdict on a key.
    pub fn replace(
        &mut self,
        conditions: Vec<Condition>,
        mut groups: Vec<Group>,
        known: impl Fn(Key) -> Verdict,
        out: &mut Vec<Output>,
    ) {
        groups.retain(|group| group.panic_percent > 0 && !group.keys.is_empty());
        let mut old = std::mem::take(self);
        let before: Vec<_> = old.guards.iter().filter(|guard| guard.panic).collect();
        let was_in_panic = |name: &str| before.iter().any(|g| *g.group.name == *name);
        for (number, condition) in (0u32..).zip(&conditions) {
            for key in &condition.checks {
                self.joined.entry(*key).or_default().push(number);
            }
        }
        for (number, group) in (0u32..).zip(&groups) {
            for key in &group.keys {
                self.guarded.entry(*key).or_default().push(number);
            }
        }
        let mut truth = std::mem::take(&mut old.truth);
        for key in self.joined.keys().chain(self.guarded.keys()) {
            let held = || truth.remove(key).unwrap_or_else(|| known(*key));
            self.truth.entry(*key).or_insert_with(held);
        }
        self.conditions = conditions;
        for number in 0..self.conditions.len() {
            let key = self.conditions[number].key;
            let computed = self.compute(number);
            let held = truth.remove(&key).unwrap_or_else(|| known(key));
            let held = self.truth.entry(key).or_insert(held);
            if computed.state != State::Unknown {
                *held = computed;
            }
        }
        for group in groups {
            let down = group.keys.iter().filter(|key| self.is_down(**key)).count();
            let mut guard = Guard {
                group,
                down,
                panic: false,
            };
            guard.panic = guard.wants_panic();
            if guard.panic != was_in_panic(&guard.group.name) {
                out.push(announce(&guard));
            }
            self.guards.push(guard);
        }
        // Report every verdict that the queue lacks and may have.
        let keys: Vec<_> = self.truth.keys().copied().collect();
        for key in keys {
            let reported = old.withheld.get(&key).copied();
            let reported = reported.unwrap_or_else(|| known(key).state);
            self.report_or_withhold(key, reported, known(key).verified, out);
        }
    }

    /// Process the new verdict on a check.
    pub fn observe(&mut self, key: Key, verdict: Verdict, out: &mut Vec<Output>) {
        self.set(key, verdict, out);
        let Some(numbers) = self.joined.get(&key) else {
            return;
        };
        for number in numbers.clone() {
            let condition = self.conditions[number as usize].key;
            let mut computed = self.compute(number as usize);
            let held = self.truth.get(&condition).copied();
            let held = held.unwrap_or(Verdict::UNKNOWN);
            if computed.state == State::Unknown
                || (computed.state, computed.verified) == (held.state, held.verified)
            {
                continue;
            }
            if computed.state == State::Up {
                computed.detail = verdict.detail;
            }
            self.set(condition, computed, out);
        }
    }

    /// Number of groups in panic.
    pub fn panics(&self) -> usize {
        self.guards.iter().filter(|guard| guard.panic).count()
    }

    /// Number of keys that are down but not reported down.
    pub fn withheld(&self) -> usize {
        self.withheld.len()
    }

    /// Number of conditions.
    pub fn conditions(&self) -> usize {
        self.conditions.len()
    }

    fn is_down(&self, key: Key) -> bool {
        self.truth.get(&key).is_some_and(|v| v.state == State::Down)
    }

    fn compute(&self, number: usize) -> Verdict {
        let mut result = Verdict {
            state: State::Up,
            verified: true,
            ..Verdict::UNKNOWN
        };
        for key in &self.conditions[number].checks {
            let verdict = self.truth.get(key).copied().unwrap_or(Verdict::UNKNOWN);
            let replaces = match (result.state, verdict.state) {
                // If several are down, prefer one that this run has probed.
                (State::Down, State::Down) => verdict.verified && !result.verified,
                (State::Down, _) => false,
                (_, State::Down) | (State::Up, State::Unknown) => true,
                _ => {
                    result.verified &= verdict.verified;
                    false
                }
            };
            if replaces {
                result = verdict;
            }
        }
        result
    }

    fn set(&mut self, key: Key, verdict: Verdict, out: &mut Vec<Output>) {
        let Some(numbers) = self.guarded.get(&key) else {
            if let Some(truth) = self.truth.get_mut(&key) {
                *truth = verdict;
            }
            out.push(Output::Report(key, verdict));
            return;
        };
        let was = self.truth.insert(key, verdict);
        let was_down = was.is_some_and(|was| was.state == State::Down);
        let is_down = verdict.state == State::Down;
        let mut ended = Vec::new();
        for number in numbers {
            let guard = &mut self.guards[*number as usize];
            guard.down = guard.down + usize::from(is_down) - usize::from(was_down);
            let wanted = guard.wants_panic();
            if wanted != guard.panic {
                guard.panic = wanted;
                out.push(announce(guard));
                if !wanted {
                    ended.push(*number);
                }
            }
        }
        match self.withheld.get(&key) {
            Some(reported) => {
                let (reported, verified) = (*reported, was.is_some_and(|w| w.verified));
                self.report_or_withhold(key, reported, verified, out);
            }
            None if is_down && self.in_panic(key) => {
                let reported = was.map_or(State::Unknown, |was| was.state);
                self.report_or_withhold(key, reported, true, out);
            }
            None => out.push(Output::Report(key, verdict)),
        }
        for number in ended {
            let keys = self.guards[number as usize].group.keys.clone();
            for key in &keys {
                if let Some(reported) = self.withheld.get(key).copied() {
                    self.report_or_withhold(*key, reported, true, out);
                }
            }
        }
    }

    fn in_panic(&self, key: Key) -> bool {
        let numbers = self.guarded.get(&key).map_or(&[][..], Vec::as_slice);
        numbers.iter().any(|n| self.guards[*n as usize].panic)
    }

    /// Report or withhold the verdict on a key whose reported state differs.
    fn report_or_withhold(
        &mut self,
        key: Key,
        reported: State,
        verified: bool,
        out: &mut Vec<Output>,
    ) {
        let truth = self.truth.get(&key).copied().unwrap_or(Verdict::UNKNOWN);
        let differs = truth.state != reported || (truth.verified && !verified);
        if truth.state == State::Down && reported != State::Down && self.in_panic(key) {
            self.withheld.insert(key, reported);
            return;
        }
        self.withheld.remove(&key);
        if differs && truth.state != State::Unknown {
            out.push(Output::Report(key, truth));
        }
    }
}

fn announce(guard: &Guard) -> Output {
    Output::Panic {
        group: guard.group.name.clone(),
        on: guard.panic,
        down: guard.down,
        keys: guard.group.keys.len(),
    }
}

#[cfg(test)]
#[path = "aggregate_tests.rs"]
mod tests;
