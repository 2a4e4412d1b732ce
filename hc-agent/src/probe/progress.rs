// SPDX-License-Identifier: Apache-2.0
//! The stage that a probe has reached and, on request, the steps so far.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::parting::Parting;

/// Stage of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for the connection.
    #[default]
    Connect,
    /// In the TLS handshake.
    Handshake,
    /// Sending the request.
    Send,
    /// Waiting for the status line.
    Receive,
    /// Waiting for any answer.
    Answer,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Handshake => "talking TLS",
            Self::Send => "sending the request",
            Self::Receive => "waiting for the status line",
            Self::Answer => "waiting for an answer",
        })
    }
}

/// A step of a probe.
#[derive(Debug)]
pub struct Step {
    /// Time since the start of the probe.
    pub at: Duration,
    /// What happened.
    pub text: String,
}

/// Progress of one probe.
#[derive(Debug)]
pub(super) struct Progress {
    /// The current stage.
    pub(super) stage: Stage,
    /// HTTP status, TLS alert or SCTP cause, 0 without one.
    pub(super) detail: u16,
    pub(super) start: Instant,
    /// The connection, if the result was known before it ended.
    pub(super) parting: Option<Parting>,
    /// Recorded only on request.
    pub(super) steps: Option<Vec<Step>>,
}

impl Progress {
    pub(super) fn new(explain: bool) -> Self {
        Self {
            stage: Stage::Connect,
            detail: 0,
            start: Instant::now(),
            parting: None,
            steps: explain.then(Vec::new),
        }
    }

    /// Record a step, if steps are requested.
    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(steps) = &mut self.steps {
            steps.push(Step {
                at: self.start.elapsed(),
                text: text(),
            });
        }
    }
}
