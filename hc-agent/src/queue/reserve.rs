// SPDX-License-Identifier: Apache-2.0
//! Reserves space for changes on a file system that others may fill.
//!
//! A node that cannot write its queue keeps forwarding to the last known members.
//! Therefore the queue contains an empty allocated file, and a delta that does not fit
//! takes space from it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use super::directory::TEMPORARY_PREFIX;

/// Reserved space: enough for some hundred deltas, or for one with 30,000 changes.
pub(super) const BYTES: u64 = 1 << 20;
/// Overhead of a file, and of a page that is not full.
const BESIDE: u64 = 8192;
/// Smallest reserve worth keeping.
const LEAST_BYTES: u64 = 1 << 16;

/// The reserve file.
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    /// Take over the reserve of an earlier run, if there is one.
    pub(super) fn new(directory: &Path) -> Self {
        // Readers ignore temporary files.
        let path = directory.join(format!("{TEMPORARY_PREFIX}reserve"));
        let bytes = fs::metadata(&path).map_or(0, |found| found.len());
        Self { path, bytes }
    }

    /// Fill up the reserve, as far as there is space.
    pub(super) fn fill(&mut self) {
        if self.bytes >= BYTES {
            return;
        }
        let mut options = File::options();
        let Ok(file) = options.append(true).create(true).open(&self.path) else {
            return;
        };
        let mut wanted = BYTES;
        while wanted > self.bytes.max(LEAST_BYTES - 1) {
            if fallocate(&file, FallocateFlags::empty(), 0, wanted).is_ok() {
                self.bytes = wanted;
                return;
            }
            wanted /= 2;
        }
    }

    /// Free space for a file of so many bytes. Returns whether any was freed.
    pub(super) fn give(&mut self, bytes: usize) -> bool {
        let rest = self.bytes.saturating_sub(bytes as u64 + BESIDE);
        let file = File::options().write(true).open(&self.path);
        let given = rest < self.bytes && file.and_then(|f| f.set_len(rest)).is_ok();
        // A reserve that cannot be freed counts as absent.
        self.bytes = if given { rest } else { 0 };
        given
    }
}

/// Whether a file could not be written for lack of space.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
