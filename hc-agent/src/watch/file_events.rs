// SPDX-License-Identifier: Apache-2.0
//! Inotify events about a file that is renamed into its directory.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use inotify::{EventMask, EventStream, Inotify, WatchMask};
use tokio_stream::StreamExt;

/// Polling interval, in case an event was lost.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Identity of a version of the file: a renamed one has another inode.
pub(super) type Version = (u64, u64, i64, i64);

pub(super) fn version(path: &Path) -> Option<Version> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

pub(super) type Events = EventStream<[u8; 4096]>;

pub(super) enum Event {
    /// The file may have changed.
    Changed,
    /// Something else in its directory.
    Other,
    /// No more events will come.
    Lost,
}

/// Watch the directory, as a watch on the file would stay with the replaced one.
pub(super) fn watch(path: &Path) -> io::Result<Events> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let inotify = Inotify::init()?;
    let appears = WatchMask::MOVED_TO | WatchMask::CLOSE_WRITE;
    let vanishes = WatchMask::MOVED_FROM | WatchMask::DELETE;
    let mask = appears | vanishes | WatchMask::DELETE_SELF;
    inotify
        .watches()
        .add(directory, mask | WatchMask::ONLYDIR)?;
    inotify.into_event_stream([0; 4096])
}

pub(super) async fn next(events: Option<&mut Events>, path: &Path) -> Event {
    let Some(events) = events else {
        return std::future::pending().await;
    };
    let Some(Ok(event)) = events.next().await else {
        return Event::Lost;
    };
    if event.mask.contains(EventMask::IGNORED) {
        return Event::Lost;
    }
    let ours = event.name.as_deref() == path.file_name();
    if ours || event.mask.contains(EventMask::Q_OVERFLOW) {
        Event::Changed
    } else {
        Event::Other
    }
}
