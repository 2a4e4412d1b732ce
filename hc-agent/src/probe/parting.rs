// SPDX-License-Identifier: Apache-2.0
//! How a conversation ends whose result is known: the server may say all that it has to
//! say.
//!
//! The status line is the result. To close then would reset the connection under a server
//! that still writes, and many log that as an error, with each probe. So the rest is
//! read and thrown away until the server ends the connection, and then ours ends with
//! FIN. What takes too long, or is too much, is reset.

use std::io::{self, Read};
use std::time::Duration;

use rustls::ClientConnection;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::now::Now;

/// How long a rest is read.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Bytes that are read of it.
const MAX_BYTES: usize = 64 << 10;
/// Bytes that are read at once.
const PART_BYTES: usize = 4096;

/// A connection whose result is known. Where this is dropped, it is reset.
#[derive(Debug)]
pub struct Parting {
    stream: TcpStream,
    /// Boxed, as most have none.
    tls: Option<Box<ClientConnection>>,
}

impl Parting {
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self { stream, tls: None }
    }

    pub(super) fn tls(stream: TcpStream, tls: ClientConnection) -> Self {
        let tls = Some(Box::new(tls));
        Self { stream, tls }
    }

    /// Read the rest, within bounds.
    pub async fn read_on(mut self) {
        if let Ok(true) = timeout(MAX_TIME, self.read_to_the_end()).await {
            // The server has ended first, so that nothing of it stays here.
            let _ = SockRef::from(&self.stream).set_linger(None);
        }
    }

    /// Returns whether the server has ended the connection.
    async fn read_to_the_end(&mut self) -> bool {
        let mut left = MAX_BYTES;
        while left > 0 {
            match self.read() {
                Ok(0) => return true,
                Ok(read) => left = left.saturating_sub(read),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if self.stream.readable().await.is_err() {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        false
    }

    /// Read a part of the rest; 0 is its end.
    fn read(&mut self) -> io::Result<usize> {
        // Not a part of what waits: many may wait at a time.
        let mut data = [0; PART_BYTES];
        if let Some(tls) = &mut self.tls {
            while matches!(tls.reader().read(&mut data), Ok(1..)) {}
            let read = tls.read_tls(&mut Now(&self.stream))?;
            let state = tls.process_new_packets().map_err(io::Error::other)?;
            if read > 0 && !state.peer_has_closed() {
                return Ok(read);
            }
            // Not before the server says so: one that hears of the end before its own
            // may lose the rest.
            tls.send_close_notify();
            while tls.wants_write() && tls.write_tls(&mut Now(&self.stream)).is_ok() {}
            self.tls = None;
        }
        self.stream.try_read(&mut data)
    }
}
