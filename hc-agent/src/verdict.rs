// SPDX-License-Identifier: Apache-2.0
//! The verdict on a check or condition.

use crate::reason::Reason;
use crate::state::State;

/// The state of a key and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The state.
    pub state: State,
    /// Whether probes of this run agree with it.
    pub verified: bool,
    /// Its reason.
    pub reason: Reason,
    /// HTTP status or the like, 0 without one.
    pub detail: u16,
}

impl Verdict {
    /// No verdict yet.
    pub const UNKNOWN: Self = Self {
        state: State::Unknown,
        verified: false,
        reason: Reason::NONE,
        detail: 0,
    };
}
