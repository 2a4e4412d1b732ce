// SPDX-License-Identifier: Apache-2.0
//! Room for changes on a file system that others fill.
//!
//! A node whose queue takes nothing goes on with the members that it knew. So there is
//! a file of nothing in the queue, and a delta that does not fit takes room from it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use super::directory::TEMPORARY_PREFIX;

/// Room that is kept: of some hundred deltas, or of one with 30,000 changes.
pub(super) const BYTES: u64 = 1 << 20;
/// What a file takes beside its content, and a page that is not full.
const BESIDE: u64 = 8192;
/// Less is not worth keeping.
const LEAST_BYTES: u64 = 1 << 16;

/// The file.
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    /// What an earlier run has kept, or nothing yet.
    pub(super) fn new(directory: &Path) -> Self {
        // Readers look at no temporary files.
        let path = directory.join(format!("{TEMPORARY_PREFIX}reserve"));
        let bytes = fs::metadata(&path).map_or(0, |found| found.len());
        Self { path, bytes }
    }

    /// Keep what is missing, or as much as there is room for.
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

    /// Give room for a file of so many bytes. Returns whether there is any to give.
    pub(super) fn give(&mut self, bytes: usize) -> bool {
        let rest = self.bytes.saturating_sub(bytes as u64 + BESIDE);
        let file = File::options().write(true).open(&self.path);
        let given = rest < self.bytes && file.and_then(|f| f.set_len(rest)).is_ok();
        // Where it cannot be given it is not there.
        self.bytes = if given { rest } else { 0 };
        given
    }
}

/// Whether a file could not be written for want of room.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
