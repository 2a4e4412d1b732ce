// SPDX-License-Identifier: Apache-2.0
//! What a shard reports to the engine, and which failures it does not.

use std::sync::Arc;
use std::time::Duration;

use super::probe_stats::ProbeStats;
use crate::config::Check;
use crate::key::Key;
use crate::probe::{Failure, ProbeOutcome};
use crate::schedule::lateness::explains;
use crate::state::State;

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
    pub outcome: ProbeOutcome,
}

/// Why a failed probe says nothing about its target: its outcome is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// This node was short of descriptors, ports or memory, or could not send.
    LocalShortage,
    /// This node was too slow while it waited for the answer.
    LocalDelay,
}

/// A failure that was discarded.
#[derive(Clone, Debug)]
pub struct Discarded {
    /// The check.
    pub key: Key,
    /// Own lateness.
    pub lateness: Duration,
    /// What failed.
    pub text: String,
}

/// What the engine takes from a shard once a second.
#[derive(Default)]
pub struct ShardReport {
    /// Numbers since the last time.
    pub stats: ProbeStats,
    /// One of the failures that were discarded.
    pub discarded: Option<Discarded>,
    /// Age of the oldest probe that is due and cannot start.
    pub waiting_us: u32,
    /// Checks of members that are moving.
    pub patient: usize,
    /// Probes now.
    pub in_flight: usize,
    /// Probes at a time, at most.
    pub room: usize,
    /// Checks by state.
    pub counts: [usize; 3],
    /// Outcomes wait for what the agent says about uplinks.
    pub waits: bool,
    /// Probes that should start in a million seconds, with intervals as they are.
    pub wanted: u64,
}

/// Why a failure says nothing about its target, if so.
pub(super) fn discard(
    failure: &Failure,
    lateness: Duration,
    check: &Check,
) -> Option<Discard> {
    match failure {
        Failure::Local(_) => Some(Discard::LocalShortage),
        // A server may also close because we were too slow to ask.
        Failure::Timeout(_) | Failure::Closed(_) if explains(lateness, check.timeout) => {
            Some(Discard::LocalDelay)
        }
        _ => None,
    }
}
