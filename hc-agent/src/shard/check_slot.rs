// SPDX-License-Identifier: Apache-2.0
//! A check slot: the state of one check, in few bytes, as there may be 140,000 checks.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Check;
use crate::probe::ProbeOutcome;
use crate::reason::Reason;
use crate::schedule::grid;
use crate::state::{Machine, State};

/// The state of one check.
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub(crate) struct CheckSlot {
    /// What is probed.
    pub check: Arc<Check>,
    /// Its state.
    pub machine: Machine,
    /// Whether a probe is running.
    pub running: bool,
    /// The next probe became due while the last one was running.
    pub overdue: bool,
    /// It was put off once and must not be put off again.
    pub put_off: bool,
    /// A probe since uplinks returned agrees with the state.
    pub settled: bool,
    /// The last reload that contained it.
    pub reload: u32,
    /// Last results, the newest in bit 0: 1 is a success.
    pub history: u8,
    /// Number of results in `history`.
    pub seen: u8,
    /// Why the last probe failed.
    pub reason: Reason,
    /// HTTP status of the last answer, 0 without one.
    pub detail: u16,
    /// How long the last probe took.
    pub took_us: u32,
    /// How late it started.
    pub late_us: u32,
}

impl CheckSlot {
    /// A slot for a check, with the state from an earlier run.
    pub(crate) fn new(check: Arc<Check>, state: Option<State>, reload: u32) -> Self {
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
            settled: false,
            reload,
            history: 0,
            seen: 0,
            reason: Reason::NONE,
            detail: 0,
            took_us: 0,
            late_us: 0,
        }
    }

    /// Interval of probes, as in the file.
    pub(crate) fn delay_ms(&self) -> u64 {
        grid::milliseconds(self.check.delay)
    }

    /// Current interval of probes.
    pub(crate) fn interval_ms(&self, fast_ms: Option<u64>, stretch_permille: u32) -> u64 {
        let fast_ms = fast_ms.filter(|_| !self.machine.is_steadily_up());
        grid::interval_ms(self.delay_ms(), fast_ms, stretch_permille)
    }

    /// Record a result for display.
    pub(crate) fn remember(&mut self, outcome: &ProbeOutcome) {
        self.history = self.history << 1 | u8::from(outcome.result.is_ok());
        self.seen = (self.seen + 1).min(8);
        self.reason = outcome.reason();
        self.detail = outcome.status;
        self.took_us = microseconds(outcome.took);
    }

    /// The last results as characters, the newest last.
    pub(crate) fn signs(&self) -> String {
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
pub(super) fn microseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).map_or(3_600_000_000, |us| us.min(3_600_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_slot_takes_at_most_32_bytes_and_a_check_96() {
        assert!(size_of::<Option<CheckSlot>>() <= 32);
        assert!(size_of::<Check>() <= 96);
    }
}
