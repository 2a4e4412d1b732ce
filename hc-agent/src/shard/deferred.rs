// SPDX-License-Identifier: Apache-2.0
//! Outcomes that are not judged yet.

use std::sync::Arc;

use crate::config::Check;
use crate::probe::ProbeOutcome;

/// An outcome that waits until it is known whether uplinks worked.
pub(super) struct Deferred {
    pub(super) number: u32,
    pub(super) check: Arc<Check>,
    pub(super) outcome: ProbeOutcome,
    pub(super) started_ms: u64,
    pub(super) ended_ms: u64,
}
