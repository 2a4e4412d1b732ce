// SPDX-License-Identifier: Apache-2.0
//! Serves the live table of checks on a UNIX socket.
//!
//! The answer is lines of JSON: a [`Summary`], then a [`Row`] for each check. Rows are
//! built a few at a time on the main thread, which does not probe.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::Shard;
use super::check_slot::CheckSlot;
use crate::uplinks::file::Uplinks;

/// Slots read at once under the lock of their thread.
const SLOTS_AT_ONCE: usize = 128;
/// Slots counted at once.
const UNSETTLED_AT_ONCE: usize = 2048;
/// Limit of keys of unsettled checks in the first line.
const UNSETTLED_MAX: usize = 1000;
/// Time limit for a client to read the whole table.
const CLIENT_TIME: Duration = Duration::from_secs(30);

/// The node as a whole, as of the last second.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it; units are in them")]
pub struct Summary {
    pub boot: String,
    pub changes: u64,
    pub checks: usize,
    pub unknown: usize,
    pub up: usize,
    pub down: usize,
    pub conditions: usize,
    pub panics: usize,
    pub withheld: usize,
    /// Checks of members that are moving.
    #[serde(default)]
    pub patient: usize,
    pub in_flight: usize,
    /// Probes started in the last second.
    pub started: u64,
    pub used_permille: u64,
    /// 100 if the node keeps up.
    pub stretch_percent: u32,
    pub late_p50_ms: f64,
    pub late_p99_ms: f64,
    pub late_max_ms: f64,
    /// 99th percentile of lateness since the start.
    pub total_late_p99_ms: f64,
    pub own_late_s: f64,
    /// The agent's report on uplinks.
    #[serde(default)]
    pub uplinks: Uplinks,
    /// Whether changed states are not in the queue yet.
    #[serde(default)]
    pub unwritten: bool,
    /// Checks whose state no probe has confirmed or changed since uplinks returned.
    #[serde(default)]
    pub unsettled: usize,
    /// Their keys, at most [`UNSETTLED_MAX`].
    #[serde(default)]
    pub unsettled_keys: Vec<String>,
}

/// One check.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it; units are in them")]
pub struct Row {
    pub key: String,
    pub kind: String,
    pub target: String,
    pub state: String,
    pub verified: bool,
    /// Last results, the newest last: `+` is a success.
    pub results: String,
    pub reason: String,
    pub detail: u16,
    pub took_ms: f64,
    pub late_ms: f64,
    pub delay_s: f64,
}

/// The summary, which the engine updates.
pub type SharedSummary = Arc<Mutex<Summary>>;

/// A panic with the lock held ends the program, so poisoning is ignored.
pub fn lock(summary: &SharedSummary) -> MutexGuard<'_, Summary> {
    summary.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listen at a path, replacing the socket of an earlier run.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let found = std::fs::symlink_metadata(path);
    if found.is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// Serve the table to one client after the other, forever.
pub async fn serve(
    listener: UnixListener,
    shards: Vec<Arc<Shard>>,
    summary: SharedSummary,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = timeout(CLIENT_TIME, show(stream, &shards, &summary)).await;
            }
            Err(error) => {
                warn!(%error, "cannot accept a client of the table");
                sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn show(
    mut stream: UnixStream,
    shards: &[Arc<Shard>],
    summary: &SharedSummary,
) -> io::Result<()> {
    let mut head = lock(summary).clone();
    for shard in shards {
        count_unsettled(shard, &mut head).await;
    }
    let mut text = serde_json::to_vec(&head)?;
    text.push(b'\n');
    for shard in shards {
        for first in (0..).step_by(SLOTS_AT_ONCE) {
            let Some(rows) = rows(shard, first) else {
                break;
            };
            for row in rows {
                serde_json::to_writer(&mut text, &row)?;
                text.push(b'\n');
            }
            stream.write_all(&text).await?;
            text.clear();
            tokio::task::yield_now().await;
        }
    }
    stream.write_all(&text).await?;
    stream.shutdown().await
}

async fn count_unsettled(shard: &Shard, head: &mut Summary) {
    for first in (0..).step_by(UNSETTLED_AT_ONCE) {
        {
            let core = shard.core();
            head.unwritten |= !core.events.is_empty();
            let Some(slots) = core.slots.get(first..).filter(|slots| !slots.is_empty())
            else {
                return;
            };
            let slots = slots.iter().take(UNSETTLED_AT_ONCE).flatten();
            for slot in slots.filter(|slot| !slot.settled) {
                head.unsettled += 1;
                if head.unsettled_keys.len() < UNSETTLED_MAX {
                    head.unsettled_keys.push(slot.check.key.to_string());
                }
            }
        }
        tokio::task::yield_now().await;
    }
}

/// The rows of some slots; `None` beyond the last one.
fn rows(shard: &Shard, first: usize) -> Option<Vec<Row>> {
    let core = shard.core();
    let slots = core.slots.get(first..)?;
    if slots.is_empty() {
        return None;
    }
    let slots = slots.iter().take(SLOTS_AT_ONCE).flatten();
    let row = |slot: &CheckSlot| Row {
        key: slot.check.key.to_string(),
        kind: slot.check.probe.name().to_owned(),
        target: slot.check.aim(),
        state: slot.machine.state().name().to_owned(),
        verified: slot.machine.verified(),
        results: slot.signs(),
        reason: slot.reason.name().to_owned(),
        detail: slot.detail,
        took_ms: f64::from(slot.took_us) / 1e3,
        late_ms: f64::from(slot.late_us) / 1e3,
        delay_s: slot.check.delay.as_secs_f64(),
    };
    Some(slots.map(row).collect())
}
