// SPDX-License-Identifier: Apache-2.0
//! A shard's reports to the engine, and the failures that it discards.

use std::sync::Arc;
use std::time::Duration;

use super::probe_stats::ProbeStats;
use crate::config::Check;
use crate::key::Key;
use crate::probe::{Failure, ProbeOutcome};
use crate::schedule::lateness::explains;
use crate::state::State;

/// A state that has changed or is verified now.
#[derive(Debug)]
pub struct Event {
    /// The probed check.
    pub check: Arc<Check>,
    /// Its state before.
    pub from: State,
    /// Its state now.
    pub to: State,
    /// Outcome of the probe.
    pub outcome: ProbeOutcome,
}

/// Why a failure says nothing about its target and is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Descriptors, ports or memory of this node had run out, or it could not send.
    LocalShortage,
    /// This node was too late while it waited for the answer.
    LocalDelay,
}

/// A discarded failure.
#[derive(Clone, Debug)]
pub struct Discarded {
    /// The check.
    pub key: Key,
    /// Own lateness.
    pub lateness: Duration,
    /// What failed.
    pub text: String,
}

/// Figures that the engine takes from a shard once a second.
#[derive(Default)]
pub struct ShardReport {
    /// Counters since the last report.
    pub stats: ProbeStats,
    /// One of the discarded failures.
    pub discarded: Option<Discarded>,
    /// Age of the oldest due probe that cannot start.
    pub waiting_us: u32,
    /// Checks of members that are moving.
    pub patient: usize,
    /// Running probes.
    pub in_flight: usize,
    /// Current limit of concurrent probes.
    pub room: usize,
    /// Checks by state.
    pub counts: [usize; 3],
    /// Whether outcomes wait for the agent's report on uplinks.
    pub waits: bool,
    /// Probes that should start per million seconds, with the current intervals.
    pub wanted: u64,
}

/// The reason to discard a failure, if any.
pub(super) fn discard(
    failure: &Failure,
    lateness: Duration,
    check: &Check,
) -> Option<Discard> {
    match failure {
        Failure::Local(_) => Some(Discard::LocalShortage),
        // A server may also close because our request was too late.
        Failure::Timeout(_) | Failure::Closed(_) if explains(lateness, check.timeout) => {
            Some(Discard::LocalDelay)
        }
        _ => None,
    }
}
