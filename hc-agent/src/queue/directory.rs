// SPDX-License-Identifier: Apache-2.0
//! File names in the queue's directory, and the restore of an earlier run's states.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use tracing::error;

use super::format::{self, FileKind, QueueFile};

/// Name of the snapshot.
pub const SNAPSHOT: &str = "snapshot";
/// Name of the directory of files that were set aside.
pub const REJECTED: &str = "rejected";
/// Prefix of unfinished files.
pub const TEMPORARY_PREFIX: &str = ".tmp-";

/// Name of a delta: sorts by boot, then by sequence.
pub fn delta_name(boot: u64, first_sequence: u64) -> String {
    format!("{boot:016x}-{first_sequence:016x}.delta")
}

pub(super) fn parse_delta_name(name: &str) -> Option<(u64, u64)> {
    let (boot, first) = name.strip_suffix(".delta")?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let parsed = (number(boot)?, number(first)?);
    (delta_name(parsed.0, parsed.1) == name).then_some(parsed)
}

/// Boot and first sequence of waiting deltas, in order.
pub(super) fn list_deltas(directory: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut deltas = Vec::new();
    for entry in fs::read_dir(directory)? {
        deltas.extend(entry?.file_name().to_str().and_then(parse_delta_name));
    }
    deltas.sort_unstable();
    Ok(deltas)
}

/// Read the snapshot in a queue directory.
pub fn read_snapshot(
    directory: &Path,
) -> io::Result<Result<QueueFile, format::FormatError>> {
    let data = fs::read(directory.join(SNAPSHOT))?;
    Ok(format::decode(&data).and_then(|file| match file.kind {
        FileKind::Snapshot => Ok(file),
        FileKind::Delta => Err(format::FormatError::Kind(FileKind::Delta as u16)),
    }))
}

/// Read the snapshot of an earlier run. A broken one is set aside, as unknown states
/// are better than wrong ones.
pub(super) fn restore_snapshot(directory: &Path) -> Option<QueueFile> {
    match read_snapshot(directory) {
        Ok(Ok(file)) => Some(file),
        Ok(Err(error)) => {
            error!(%error, "snapshot cannot be used, set aside: starting from unknown");
            let rejected = directory.join(REJECTED);
            // Always the same name, so that a crash loop cannot fill the disk.
            let _ = fs::create_dir(&rejected);
            if let Err(error) =
                fs::rename(directory.join(SNAPSHOT), rejected.join(SNAPSHOT))
            {
                error!(%error, "cannot set the snapshot aside");
            }
            let _ = fs::write(rejected.join("snapshot.reason"), format!("{error}\n"));
            None
        }
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                error!(%error, "cannot read the snapshot: starting from unknown");
            }
            None
        }
    }
}

/// Nanoseconds since 1970, by `CLOCK_REALTIME`.
pub(super) fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// Write a file under a temporary name, then rename it.
///
/// Not synced: the queue may live in memory (probing rebuilds it), and a power cut
/// leaves at worst a torn file, which readers set aside.
pub(super) fn put(directory: &Path, name: &str, data: &[u8]) -> io::Result<()> {
    // A single temporary name is enough, and a killed process leaves at most one file.
    let temporary = directory.join(format!("{TEMPORARY_PREFIX}writer"));
    let result = File::create(&temporary)
        .and_then(|mut file| file.write_all(data))
        .and_then(|()| fs::rename(&temporary, directory.join(name)));
    if result.is_err() {
        // Free the space on a full disk.
        let _ = fs::remove_file(&temporary);
    }
    result
}
