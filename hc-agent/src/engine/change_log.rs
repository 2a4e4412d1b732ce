// SPDX-License-Identifier: Apache-2.0
//! State changes waiting to be logged: writing the queue has priority.

use std::collections::VecDeque;

use tracing::{info, warn};

use crate::schedule::grid::milliseconds;
use crate::shard::Event;

/// Lines logged before yielding to other work.
const LINES_AT_ONCE: usize = 64;
/// Limit of waiting lines, as probes need the memory.
const MAX_LINES: usize = 4096;

/// State changes not logged yet.
#[derive(Default)]
pub(super) struct ChangeLog {
    waiting: VecDeque<Event>,
    /// Number of changes dropped without a log line.
    dropped: u64,
}

impl ChangeLog {
    /// Log a change later, if there is room for it.
    pub(super) fn push(&mut self, event: Event) {
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        if self.waiting.len() < MAX_LINES {
            self.waiting.push_back(event);
        } else {
            self.dropped += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Log some changes.
    pub(super) fn write_some(&mut self) {
        for _ in 0..LINES_AT_ONCE {
            let Some(event) = self.waiting.pop_front() else {
                break;
            };
            write(&event);
        }
        if self.waiting.is_empty() && self.dropped > 0 {
            warn!(
                changes = self.dropped,
                "too many changes at once to log them all"
            );
            self.dropped = 0;
        }
    }
}

fn write(event: &Event) {
    let outcome = &event.outcome;
    let text = outcome.result.as_ref().err().map(ToString::to_string);
    info!(
        check = %event.check.key,
        kind = event.check.probe.name(),
        target = event.check.aim(),
        from = event.from.name(),
        to = event.to.name(),
        reason = outcome.reason().name(),
        status = outcome.status,
        took_ms = milliseconds(outcome.took),
        "{}",
        text.as_deref().unwrap_or("probe succeeded"),
    );
}
