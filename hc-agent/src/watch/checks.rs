// SPDX-License-Identifier: Apache-2.0
//! Detects new checks files: by inotify on their directory and its parent, and by
//! polling in case an event was lost.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use inotify::{EventMask, EventStream, Inotify, WatchDescriptor, WatchMask};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt;
use tracing::warn;

use super::file_events::{LOOK_EVERY, version};
use crate::config::Reader;
use crate::engine::Command;

/// Delay after a change in a directory, as more changes usually follow.
const SETTLE: Duration = Duration::from_millis(50);

/// Read changed files and pass them to the engine. Returns the reader for the next
/// time, or `None` once the engine has ended.
async fn load(mut reader: Reader, commands: &mpsc::Sender<Command>) -> Option<Reader> {
    // Parsing a large file would block the runtime for too long.
    let read = move || {
        let result = reader.read();
        (reader, result)
    };
    let (reader, result) = tokio::task::spawn_blocking(read).await.ok()?;
    if result.as_ref().is_ok_and(|reading| !reading.is_new) {
        return Some(reader);
    }
    commands.send(Command::Checks(result)).await.ok()?;
    Some(reader)
}

/// Pass checks to the engine now, when they change, and on each message of `again`.
pub async fn run(
    path: PathBuf,
    commands: mpsc::Sender<Command>,
    mut again: mpsc::Receiver<()>,
) {
    let mut warned = false;
    let mut reader = Reader::new(path.clone());
    loop {
        // Set the watch before reading, so that no change is missed.
        let mut watch = match Watch::new(&path) {
            Ok(watch) => Some(watch),
            Err(error) => {
                if !std::mem::replace(&mut warned, true) {
                    warn!(%error, path = %path.display(), "cannot watch, so polling");
                }
                None
            }
        };
        let mut seen = version(&path);
        reader = match load(reader, &commands).await {
            Some(reader) => reader,
            None => return,
        };
        loop {
            let reload = tokio::select! {
                event = next(watch.as_mut()) => match event {
                    Event::Changed => {
                        if settle(watch.as_mut()).await.is_err() {
                            break;
                        }
                        true
                    }
                    Event::Other => false,
                    Event::Lost => break,
                },
                asked = again.recv() => match asked {
                    Some(()) => {
                        reader.forget_versions();
                        true
                    }
                    None => return,
                },
                () = sleep(LOOK_EVERY) => match (version(&path) != seen, watch.is_some()) {
                    (true, _) => true,
                    (false, true) => false,
                    (false, false) => break,
                },
            };
            if reload {
                seen = version(&path);
                reader = match load(reader, &commands).await {
                    Some(reader) => reader,
                    None => return,
                };
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Wait until a burst of changes in a directory is over. An error if events were lost.
async fn settle(mut watch: Option<&mut Watch>) -> Result<(), ()> {
    if watch.as_ref().is_none_or(|watch| watch.inside.is_none()) {
        return Ok(());
    }
    sleep(SETTLE).await;
    while let Ok(event) = timeout(Duration::ZERO, next(watch.as_deref_mut())).await {
        if matches!(event, Event::Lost) {
            return Err(());
        }
    }
    Ok(())
}

/// Events about a path.
struct Watch {
    events: EventStream<[u8; 4096]>,
    name: Option<OsString>,
    /// The watch on the path itself, if it is a directory.
    inside: Option<WatchDescriptor>,
}

enum Event {
    /// The checks may have changed.
    Changed,
    /// Something else in the same directory.
    Other,
    /// No more events will come, or another directory must be watched.
    Lost,
}

impl Watch {
    /// Watch the parent, as a watch on a file would stay with the replaced one; also
    /// watch the path itself if it is a directory.
    fn new(path: &Path) -> io::Result<Self> {
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let inotify = Inotify::init()?;
        let appears = WatchMask::MOVED_TO | WatchMask::CLOSE_WRITE;
        let vanishes = WatchMask::MOVED_FROM | WatchMask::DELETE;
        let mask = appears | vanishes | WatchMask::DELETE_SELF | WatchMask::ONLYDIR;
        inotify.watches().add(parent, mask | WatchMask::CREATE)?;
        let inside = inotify.watches().add(path, mask).ok();
        Ok(Self {
            events: inotify.into_event_stream([0; 4096])?,
            name: path.file_name().map(OsString::from),
            inside,
        })
    }

    fn judge<T: AsRef<OsStr>>(&self, event: &inotify::Event<T>) -> Event {
        let name = event.name.as_ref().map(AsRef::as_ref);
        if event.mask.contains(EventMask::IGNORED) {
            return Event::Lost;
        }
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            return Event::Changed;
        }
        if self.inside.as_ref() == Some(&event.wd) {
            let hidden = name.is_some_and(|name| name.as_bytes().starts_with(b"."));
            return if hidden { Event::Other } else { Event::Changed };
        }
        if name != self.name.as_deref() {
            return Event::Other;
        }
        let is_directory = event.mask.contains(EventMask::ISDIR);
        match (is_directory, event.mask.contains(EventMask::CREATE)) {
            // The directory appeared or vanished: set up the watches again.
            (true, _) => Event::Lost,
            // A file is being written.
            (false, true) => Event::Other,
            (false, false) => Event::Changed,
        }
    }
}

async fn next(watch: Option<&mut Watch>) -> Event {
    let Some(watch) = watch else {
        return std::future::pending().await;
    };
    match watch.events.next().await {
        Some(Ok(event)) => watch.judge(&event),
        _ => Event::Lost,
    }
}
