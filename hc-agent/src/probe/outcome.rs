// SPDX-License-Identifier: Apache-2.0
//! Outcome of a probe.

use std::time::Duration;

use super::failure::Failure;
use crate::config::{Check, ProbeSpec};
use crate::reason::Reason;

/// Outcome of a probe.
#[derive(Debug)]
pub struct ProbeOutcome {
    /// Success, or what failed.
    pub result: Result<(), Failure>,
    /// A detail of the result: HTTP status, TLS alert or SCTP cause, else 0.
    pub status: u16,
    /// Duration of the probe.
    pub took: Duration,
    /// Delay between the timeout and the moment when the probe noticed it.
    pub overrun: Duration,
}

impl ProbeOutcome {
    /// Whether the result is due to silence, as on a node without an uplink.
    pub fn is_silence(&self, check: &Check) -> bool {
        match &self.result {
            Ok(()) => matches!(check.probe, ProbeSpec::UdpConnect),
            Err(Failure::Timeout(_) | Failure::Unreachable(_)) => true,
            Err(_) => false,
        }
    }

    /// The reason for the result queue.
    pub fn reason(&self) -> Reason {
        match &self.result {
            Ok(()) => Reason::NONE,
            Err(failure) => failure.reason(),
        }
    }
}
