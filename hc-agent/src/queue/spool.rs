// SPDX-License-Identifier: Apache-2.0
//! The only writer of the queue's directory.
//!
//! Files appear atomically: each is written under a temporary name and renamed. Of
//! changes that cannot be written, only the last state of each check stays in memory,
//! so that memory does not grow while the disk is full or the handler is dead.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info, warn};

use super::directory::{
    SNAPSHOT, delta_name, list_deltas, put, realtime_ns, restore_snapshot,
};
use super::format::{self, FileKind, Header, QueueFile, Record};
use super::reserve::{Reserve, is_full};
use super::trouble::Trouble;
use crate::key::Key;
use crate::metrics::Metrics;
use crate::reason::Reason;
use crate::state::State;
use crate::verdict::Verdict;

/// Limit of deltas that wait for the handler; beyond it, only the snapshot is written.
pub const MAX_PENDING: usize = 1024;
/// Time for which changes are collected into one delta.
const COLLECT_TIME: Duration = Duration::from_millis(10);
/// Time between two snapshots, and between two tries after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Why the queue cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Another checker uses the directory.
    #[error("{0}: another health checker uses this queue")]
    InUse(PathBuf),
    /// The directory is missing and cannot be created, or cannot be read.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
}

struct Entry {
    record: Record,
    dirty: bool,
}

impl Entry {
    const fn unknown(key: Key) -> Self {
        Self {
            record: Record {
                key,
                sequence: 0,
                time_ns: 0,
                state: State::Unknown,
                reason: Reason::NONE,
                verified: false,
                detail: 0,
            },
            dirty: false,
        }
    }
}

/// The queue.
pub struct Spool {
    directory: PathBuf,
    /// Keeps the lock while this process writes here.
    _lock: File,
    boot: u64,
    last_sequence: u64,
    /// Sorted by key.
    entries: Vec<Entry>,
    /// Keys whose last state is not in any file yet, in the order of their verdicts.
    dirty: Vec<Key>,
    delta_at: Option<Instant>,
    snapshot_at: Option<Instant>,
    last_snapshot: Option<Instant>,
    /// Upper bound of the deltas that wait.
    pending: usize,
    stretch_percent: u16,
    reserve: Reserve,
    deltas: Trouble,
    snapshots: Trouble,
    /// The handler has not taken deltas for a long time.
    is_unread: bool,
    metrics: Metrics,
}

impl Spool {
    /// Lock the directory, restore the states of an earlier run, and write the first
    /// snapshot of this one.
    pub fn open(directory: &Path, metrics: Metrics) -> Result<Self, SpoolError> {
        let failed = |e| SpoolError::Io(directory.to_owned(), e);
        fs::create_dir_all(directory).map_err(failed)?;
        let lock = File::open(directory).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(SpoolError::InUse(directory.to_owned()));
            }
            Err(fs::TryLockError::Error(e)) => return Err(failed(e)),
        }
        let deltas = list_deltas(directory).map_err(failed)?;
        let old = restore_snapshot(directory);
        let newest = deltas
            .iter()
            .map(|(boot, _)| *boot)
            .chain(old.as_ref().map(|file| file.boot))
            .max();
        let mut spool = Self {
            directory: directory.to_owned(),
            _lock: lock,
            boot: realtime_ns().max(newest.map_or(0, |boot| boot.saturating_add(1))),
            last_sequence: 0,
            entries: Vec::new(),
            dirty: Vec::new(),
            delta_at: None,
            snapshot_at: None,
            last_snapshot: None,
            pending: deltas.len(),
            stretch_percent: 100,
            reserve: Reserve::new(directory),
            deltas: Trouble::new("changes"),
            snapshots: Trouble::new("the snapshot"),
            is_unread: false,
            metrics,
        };
        if let Some(old) = old {
            spool.restore(&old, &deltas);
        }
        spool.write_snapshot(Instant::now());
        Ok(spool)
    }

    fn restore(&mut self, old: &QueueFile, deltas: &[(u64, u64)]) {
        let mut records = old.records.clone();
        for (boot, first) in deltas {
            if *boot != old.boot || *first <= old.last_sequence {
                continue;
            }
            let path = self.directory.join(delta_name(*boot, *first));
            // The handler may remove files meanwhile, and sets broken ones aside.
            if let Ok(Ok(delta)) = fs::read(path).map(|data| format::decode(&data)) {
                records.extend(delta.records);
            }
        }
        // The sort is stable: the last record of a key counts.
        records.sort_by_key(|record| record.key);
        for record in records {
            let record = Record {
                sequence: 0,
                verified: false,
                ..record
            };
            let dirty = false;
            match self.entries.last_mut() {
                Some(last) if last.record.key == record.key => last.record = record,
                _ => self.entries.push(Entry { record, dirty }),
            }
        }
        info!(checks = self.entries.len(), "states restored");
    }

    /// Identifies this run; increases with each run.
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// Number of changes written in this run.
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    fn find(&self, key: Key) -> Option<usize> {
        self.entries
            .binary_search_by_key(&key, |e| e.record.key)
            .ok()
    }

    /// The state of a key in the queue.
    pub fn state(&self, key: Key) -> Option<State> {
        self.find(key).map(|at| self.entries[at].record.state)
    }

    /// The verdict on a key in the queue.
    pub fn verdict(&self, key: Key) -> Verdict {
        let Some(at) = self.find(key) else {
            return Verdict::UNKNOWN;
        };
        let record = self.entries[at].record;
        Verdict {
            state: record.state,
            verified: record.verified,
            reason: record.reason,
            detail: record.detail,
        }
    }

    /// Set the keys (sorted, unique). New ones are unknown until their first verdict.
    pub fn set_keys(&mut self, keys: &[Key], now: Instant) {
        let same = self.entries.len() == keys.len()
            && self
                .entries
                .iter()
                .map(|e| e.record.key)
                .eq(keys.iter().copied());
        if same {
            return;
        }
        let mut entries = Vec::with_capacity(keys.len());
        let mut old = std::mem::take(&mut self.entries).into_iter().peekable();
        for key in keys {
            while old.next_if(|entry| entry.record.key < *key).is_some() {}
            let known = old.next_if(|entry| entry.record.key == *key);
            entries.push(known.unwrap_or_else(|| Entry::unknown(*key)));
        }
        self.entries = entries;
        self.dirty.retain(|key| keys.binary_search(key).is_ok());
        self.want_snapshot(now);
    }

    /// Set the stretch of intervals in the snapshot.
    pub fn stretch(&mut self, percent: u16, now: Instant) {
        self.stretch_percent = percent;
        self.want_snapshot(now);
    }

    /// Report a verdict, as of now; it replaces one that still waits. A verdict that no
    /// probe of this run has confirmed goes only into the snapshot.
    pub fn report(&mut self, key: Key, verdict: Verdict, now: Instant) {
        let Some(at) = self.find(key) else {
            return;
        };
        let entry = &mut self.entries[at];
        entry.record = Record {
            key,
            sequence: entry.record.sequence,
            time_ns: realtime_ns(),
            state: verdict.state,
            reason: verdict.reason,
            verified: verdict.verified,
            detail: verdict.detail,
        };
        if !verdict.verified {
            self.want_snapshot(now);
            return;
        }
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push(key);
        }
        self.delta_at.get_or_insert(now + COLLECT_TIME);
        self.want_snapshot(now);
    }

    /// Whether changes wait to be written.
    pub fn holds_changes(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// When to call [`Self::flush`].
    pub fn deadline(&self) -> Option<Instant> {
        [self.delta_at, self.snapshot_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Write the files that are due.
    pub fn flush(&mut self, now: Instant) {
        if self.delta_at.is_some_and(|at| at <= now) {
            self.write_delta(now);
        }
        if self.snapshot_at.is_some_and(|at| at <= now) {
            // A snapshot contains waiting changes, but replaces only failing deltas.
            self.write_delta(now);
            self.write_snapshot(now);
        }
    }

    /// Write everything now. Returns whether that succeeded.
    pub fn close(mut self) -> bool {
        let now = Instant::now();
        self.write_delta(now);
        self.write_snapshot(now)
    }

    fn want_snapshot(&mut self, now: Instant) {
        let earliest = self.last_snapshot.map_or(now, |last| last + PAUSE);
        self.snapshot_at
            .get_or_insert(earliest.max(now + COLLECT_TIME));
    }

    fn write_delta(&mut self, now: Instant) {
        self.delta_at = None;
        if self.dirty.is_empty() {
            return;
        }
        if self.pending >= MAX_PENDING {
            match list_deltas(&self.directory) {
                Ok(deltas) => self.pending = deltas.len(),
                Err(error) => error!(%error, "cannot read the queue"),
            }
        }
        self.metrics.set_pending(self.pending);
        let is_unread = self.pending >= MAX_PENDING;
        if !std::mem::replace(&mut self.is_unread, is_unread) && is_unread {
            warn!(
                deltas = self.pending,
                "the queue is not read: only the snapshot is written"
            );
        }
        if is_unread {
            self.delta_at = Some(now + PAUSE);
            return;
        }
        let first = self.last_sequence + 1;
        let records: Vec<_> = self.numbered().collect();
        let last = self.last_sequence + records.len() as u64;
        let header = Header {
            kind: FileKind::Delta,
            boot: self.boot,
            first_sequence: first,
            last_sequence: last,
            stretch_percent: 0,
        };
        let data = format::encode(header, records.iter().copied());
        let name = delta_name(self.boot, first);
        let mut result = put(&self.directory, &name, &data);
        if result.as_ref().is_err_and(is_full) && self.reserve.give(data.len()) {
            result = put(&self.directory, &name, &data);
        }
        match result {
            Ok(()) => {
                self.deltas.is_over();
                self.pending += 1;
                self.metrics.count_delta(records.len());
                self.commit();
            }
            Err(error) => {
                self.metrics.count_write_failure();
                self.deltas.failed(&error, records.len());
                self.delta_at = Some(now + PAUSE);
            }
        }
    }

    fn write_snapshot(&mut self, now: Instant) -> bool {
        self.snapshot_at = None;
        self.last_snapshot = Some(now);
        let numbered: HashMap<_, _> = self
            .numbered()
            .map(|record| (record.key, record.sequence))
            .collect();
        let last = self.last_sequence + numbered.len() as u64;
        let records = self.entries.iter().map(|entry| {
            let mut record = entry.record;
            if entry.dirty {
                let sequence = numbered.get(&record.key);
                record.sequence = sequence.copied().unwrap_or(record.sequence);
            }
            record
        });
        let header = Header {
            kind: FileKind::Snapshot,
            boot: self.boot,
            first_sequence: 0,
            last_sequence: last,
            stretch_percent: self.stretch_percent,
        };
        let data = format::encode(header, records);
        match put(&self.directory, SNAPSHOT, &data) {
            Ok(()) => {
                self.snapshots.is_over();
                self.metrics.count_snapshot();
                self.commit();
                self.delta_at = None;
                // The remaining space is for later changes.
                self.reserve.fill();
                true
            }
            Err(error) => {
                self.metrics.count_write_failure();
                self.snapshots.failed(&error, self.dirty.len());
                self.snapshot_at = Some(now + PAUSE);
                false
            }
        }
    }

    /// The waiting changes with the sequences that they will get.
    fn numbered(&self) -> impl Iterator<Item = Record> {
        let entries = self.dirty.iter().filter_map(|key| self.find(*key));
        entries
            .zip(self.last_sequence + 1..)
            .map(|(at, sequence)| Record {
                sequence,
                ..self.entries[at].record
            })
    }

    /// Record that the waiting changes are in a file.
    fn commit(&mut self) {
        for key in std::mem::take(&mut self.dirty) {
            if let Some(at) = self.find(key) {
                self.last_sequence += 1;
                self.entries[at].record.sequence = self.last_sequence;
                self.entries[at].dirty = false;
            }
        }
    }
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
