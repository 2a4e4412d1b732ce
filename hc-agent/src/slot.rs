// SPDX-License-Identifier: Apache-2.0
//! One check at work, in as few bytes as it takes: there may be 140,000.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Check;
use crate::probe::Outcome;
use crate::queue::format::Reason;
use crate::schedule;
use crate::state::{Machine, State};

/// One check at work.
pub struct Slot {
    /// What is probed.
    pub check: Arc<Check>,
    /// Its state.
    pub machine: Machine,
    /// A probe runs.
    pub running: bool,
    /// The next probe became due while the last one was running.
    pub overdue: bool,
    /// It was put off already and must not be again.
    pub put_off: bool,
    /// The reload that named it last.
    pub reload: u32,
    /// Last results, the newest in bit 0: 1 is a success.
    pub history: u8,
    /// How many of them there are.
    pub seen: u8,
    /// Why the last probe failed.
    pub reason: Reason,
    /// HTTP status of the last answer, 0 without one.
    pub detail: u16,
    /// How long the last probe took, in microseconds.
    pub took: u32,
    /// How much too late it started, in microseconds.
    pub late: u32,
}

impl Slot {
    /// A check with the state that an earlier run has left.
    pub fn new(check: Arc<Check>, state: Option<State>, reload: u32) -> Self {
        let machine = match state {
            Some(state) if state != State::Unknown => Machine::restored(state),
            _ => Machine::new(),
        };
        Self {
            check,
            machine,
            running: false,
            overdue: false,
            put_off: false,
            reload,
            history: 0,
            seen: 0,
            reason: Reason::NONE,
            detail: 0,
            took: 0,
            late: 0,
        }
    }

    /// Time between two probes as the file has it, in milliseconds.
    pub fn delay(&self) -> u64 {
        schedule::milliseconds(self.check.delay)
    }

    /// Time between two probes now, in milliseconds.
    pub fn interval(&self, fast: Option<u64>, stretch: u32) -> u64 {
        let fast = fast.filter(|_| !self.machine.is_steadily_up());
        schedule::interval(self.delay(), fast, stretch)
    }

    /// Remember a result for people to see.
    pub fn remember(&mut self, outcome: &Outcome) {
        self.history = self.history << 1 | u8::from(outcome.result.is_ok());
        self.seen = (self.seen + 1).min(8);
        self.reason = outcome.reason();
        self.detail = outcome.status;
        self.took = microseconds(outcome.took);
    }

    /// The last results as signs, the newest last.
    pub fn signs(&self) -> String {
        let signs = (0..self.seen).rev();
        signs
            .map(|at| {
                if self.history >> at & 1 == 1 {
                    '+'
                } else {
                    '-'
                }
            })
            .collect()
    }
}

/// Microseconds of a duration, an hour at most.
pub fn microseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).map_or(3_600_000_000, |us| us.min(3_600_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_small() {
        assert!(size_of::<Option<Slot>>() <= 32);
        assert!(size_of::<Check>() <= 96);
    }
}
