// SPDX-License-Identifier: Apache-2.0
//! Patience with checks of moving members: a grace period before one goes down.

use std::collections::HashMap;
use std::time::Duration;

use crate::key::Key;
use crate::schedule::grid;

/// The checks of a shard that have patience; usually none.
#[derive(Default)]
pub(super) struct Patience {
    checks: HashMap<Key, Patient>,
}

/// A check of a member that is moving.
struct Patient {
    time_ms: u64,
    /// Start of the first failed probe since the last success.
    failing_since_ms: Option<u64>,
}

impl Patience {
    /// Replace the checks that have patience. The grace period of a failing check is
    /// not restarted.
    pub(super) fn replace(&mut self, wanted: impl Iterator<Item = (Key, Duration)>) {
        let mut before = std::mem::take(&mut self.checks);
        self.checks = wanted
            .map(|(key, time)| {
                let known = before.remove(&key);
                let patient = Patient {
                    time_ms: grid::milliseconds(time),
                    failing_since_ms: known.and_then(|known| known.failing_since_ms),
                };
                (key, patient)
            })
            .collect();
    }

    /// Number of checks that have patience.
    pub(super) fn len(&self) -> usize {
        self.checks.len()
    }

    /// Process a result. Returns whether it must not bring its check down.
    pub(super) fn bears(
        &mut self,
        key: Key,
        success: bool,
        started_ms: u64,
        tick_ms: u64,
    ) -> bool {
        let Some(patient) = self.checks.get_mut(&key) else {
            return false;
        };
        if success {
            patient.failing_since_ms = None;
            return false;
        }
        let since_ms = *patient.failing_since_ms.get_or_insert(started_ms);
        tick_ms < since_ms.saturating_add(patient.time_ms)
    }
}

#[cfg(test)]
#[path = "patience_tests.rs"]
mod tests;
