// SPDX-License-Identifier: Apache-2.0
//! Notices a new checks file: by inotify on its directory, and by looking now and then
//! in case an event was lost.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use inotify::{EventMask, EventStream, Inotify, WatchMask};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::StreamExt;
use tracing::warn;

use crate::config::{self, marks};
use crate::engine::Command;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Identity of a version of the file: a renamed one has another inode.
type Version = (u64, u64, i64, i64);

fn version(path: &Path) -> Option<Version> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

/// Read the file once and hand it to the engine. Returns false once nobody listens.
async fn load(path: &Path, commands: &mpsc::Sender<Command>) -> bool {
    let path = path.to_owned();
    // Parsing a large file takes long enough to be late for probes.
    let load = move || {
        let file = config::load(&path)?;
        marks::refuse_impossible(&file)?;
        Ok(file)
    };
    let Ok(result) = tokio::task::spawn_blocking(load).await else {
        return false;
    };
    commands.send(Command::Checks(result)).await.is_ok()
}

/// Hand the file to the engine now, when it changes or vanishes, and when `again` says
/// so.
pub async fn run(
    path: PathBuf,
    commands: mpsc::Sender<Command>,
    mut again: mpsc::Receiver<()>,
) {
    let mut warned = false;
    loop {
        // The watch is set before the file is read, so that no change falls between.
        let mut events = match watch(&path) {
            Ok(events) => Some(events),
            Err(error) => {
                if !std::mem::replace(&mut warned, true) {
                    warn!(%error, path = %path.display(), "cannot watch, looking only");
                }
                None
            }
        };
        let mut seen = version(&path);
        if !load(&path, &commands).await {
            return;
        }
        loop {
            let reload = tokio::select! {
                event = next(events.as_mut(), &path) => match event {
                    Event::Changed => true,
                    Event::Other => false,
                    Event::Lost => break,
                },
                asked = again.recv() => match asked {
                    Some(()) => true,
                    None => return,
                },
                () = sleep(LOOK_EVERY) => match (version(&path) != seen, events.is_some()) {
                    (true, _) => true,
                    (false, true) => false,
                    (false, false) => break,
                },
            };
            if reload {
                seen = version(&path);
                if !load(&path, &commands).await {
                    return;
                }
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}

type Events = EventStream<[u8; 4096]>;

enum Event {
    /// The file may be another one.
    Changed,
    /// Something else in its directory.
    Other,
    /// No more events will come.
    Lost,
}

/// Watch the directory: a watch on the file would stay with the replaced one.
fn watch(path: &Path) -> io::Result<Events> {
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

async fn next(events: Option<&mut Events>, path: &Path) -> Event {
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
