// SPDX-License-Identifier: Apache-2.0
//! Notices new checks files: by inotify on their directory and its parent, and by
//! looking now and then in case an event was lost.

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

/// After a change in a directory: others are mostly about to follow.
const SETTLE: Duration = Duration::from_millis(50);

/// Read what has changed and hand it to the engine. Returns the reader for the next
/// time; none once nobody listens.
async fn load(mut reader: Reader, commands: &mpsc::Sender<Command>) -> Option<Reader> {
    // Parsing a large file takes long enough to be late for probes.
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

/// Hand checks to the engine now, when they change or vanish, and when `again` says so.
pub async fn run(
    path: PathBuf,
    commands: mpsc::Sender<Command>,
    mut again: mpsc::Receiver<()>,
) {
    let mut warned = false;
    let mut reader = Reader::new(path.clone());
    loop {
        // The watch is set before anything is read, so that no change falls between.
        let mut watch = match Watch::new(&path) {
            Ok(watch) => Some(watch),
            Err(error) => {
                if !std::mem::replace(&mut warned, true) {
                    warn!(%error, path = %path.display(), "cannot watch, looking only");
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

/// Wait until many changes of a directory have become few. An error: events were lost.
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
    /// The path itself, where it is a directory.
    inside: Option<WatchDescriptor>,
}

enum Event {
    /// The checks may be others.
    Changed,
    /// Something else in the same directory.
    Other,
    /// No more events will come, or another directory is to be watched.
    Lost,
}

impl Watch {
    /// Watch the parent: a watch on a file would stay with the replaced one. And what
    /// is in the path, if it is a directory.
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
            // It has come, or gone: what is in it is to be watched, or no more.
            (true, _) => Event::Lost,
            // It is being written.
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
