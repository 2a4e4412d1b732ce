// SPDX-License-Identifier: Apache-2.0
//! Hands the engine what the agent says about uplinks, and asks the agent to look when
//! a failure has to be judged.

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

/// Least time between two questions: one answer serves all that wait for it.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Time until a directory that is not there is looked for again.
const RETRY: Duration = Duration::from_millis(500);

/// Hand over what the file says now and when it changes; ask the agent when `asks` is
/// notified. The agent's socket is beside the file.
pub async fn run(path: PathBuf, commands: mpsc::Sender<Command>, asks: Arc<Notify>) {
    let socket = path.with_file_name(SOCKET_NAME);
    let mut complained = false;
    let mut asked_at = Instant::now();
    loop {
        // The watch is set before the file is read, so that no change falls between.
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
                    // The answer may have come already.
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

/// What the file says. `None` if there is none or it says nothing that is understood.
fn load(path: &Path, complained: &mut bool) -> Option<Uplinks> {
    let text = std::fs::read(path).ok()?;
    match parse(&text) {
        Ok(uplinks) => {
            *complained = false;
            Some(uplinks)
        }
        Err(error) => {
            if !std::mem::replace(complained, true) {
                warn!(%error, path = %path.display(), "the file about uplinks is refused");
            }
            Some(Uplinks::default())
        }
    }
}

/// Ask the agent to look now. False if there is no agent.
fn ask(socket: &Path) -> bool {
    let sent = UnixDatagram::unbound().and_then(|sender| {
        sender.set_nonblocking(true)?;
        sender.send_to(b"!", socket)
    });
    match sent {
        Ok(_) => true,
        // A full socket: it is asked already.
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}
