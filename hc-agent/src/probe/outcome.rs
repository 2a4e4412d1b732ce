// SPDX-License-Identifier: Apache-2.0
//! What a probe has found out.

use std::time::Duration;

use super::failure::Failure;
use crate::config::{Check, ProbeSpec};
use crate::reason::Reason;

/// What a probe has found out.
#[derive(Debug)]
pub struct ProbeOutcome {
    /// Success, or what failed.
    pub result: Result<(), Failure>,
    /// A number beside the result: HTTP status, TLS alert or SCTP cause, else 0.
    pub status: u16,
    /// Time from the start of the probe to its end.
    pub took: Duration,
    /// Time from the timeout to the moment that the probe noticed it.
    pub overrun: Duration,
}

impl ProbeOutcome {
    /// Whether nothing may have come back: a node without an uplink hears the same.
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
