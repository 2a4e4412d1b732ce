// SPDX-License-Identifier: Apache-2.0
//! Passes the agent's report on uplinks to the engine, and asks the agent for a new one
//! when a failure must be judged.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use super::file_events::{Event, LOOK_EVERY, next, version, watch};
use crate::engine::Command;
use crate::uplinks::file::{SOCKET_NAME, Uplinks, parse};

/// Minimum time between two requests: one answer serves all waiting outcomes.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Time until a missing directory is looked for again.
const RETRY: Duration = Duration::from_millis(500);

/// Pass on the file's content now and when it changes; ask the agent when `asks` is
/// notified. The agent's socket is in the same directory.
pub async fn run(path: PathBuf, commands: mpsc::Sender<Command>, asks: Arc<Notify>) {
    let socket = path.with_file_name(SOCKET_NAME);
    let mut complained = false;
    let mut asked_at = Instant::now();
    loop {
        // Set the watch before reading the file, so that no change is missed.
        let mut events = watch(&path).ok();
        let mut seen = version(&path);
        let mut known = load(&path, &mut complained);
        let watched = events.is_some();
        loop {
            if let Some(known) = known.take()
                && commands.send(Command::Uplinks(known)).await.is_err()
            {
                return;
            }
            let look_again = tokio::select! {
                event = next(events.as_mut(), &path) => match event {
                    Event::Changed => true,
                    Event::Other => false,
                    Event::Lost => break,
                },
                () = asks.notified() => {
                    sleep_until(asked_at + ASK_EVERY).await;
                    asked_at = Instant::now();
                    if !ask(&socket) {
                        known = Some(Uplinks::default());
                    }
                    // The answer may have arrived already.
                    false
                }
                () = sleep(if watched { LOOK_EVERY } else { RETRY }) => {
                    if !watched {
                        break;
                    }
                    version(&path) != seen
                }
            };
            if look_again {
                seen = version(&path);
                known = load(&path, &mut complained);
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Read the file. `None` if it is missing or invalid.
fn load(path: &Path, complained: &mut bool) -> Option<Uplinks> {
    let text = std::fs::read(path).ok()?;
    match parse(&text) {
        Ok(uplinks) => {
            *complained = false;
            Some(uplinks)
        }
        Err(error) => {
            if !std::mem::replace(complained, true) {
                warn!(%error, path = %path.display(), "invalid file about uplinks");
            }
            Some(Uplinks::default())
        }
    }
}

/// Ask the agent for a new report. False if there is no agent.
fn ask(socket: &Path) -> bool {
    let sent = UnixDatagram::unbound().and_then(|sender| {
        sender.set_nonblocking(true)?;
        sender.send_to(b"!", socket)
    });
    match sent {
        Ok(_) => true,
        // If the socket is full, a request is pending already.
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}
