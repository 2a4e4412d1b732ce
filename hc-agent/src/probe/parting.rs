// SPDX-License-Identifier: Apache-2.0
//! Ends a connection after its result is known: the server may finish its answer.
//!
//! The status line decides the result. Closing at that point would reset the connection
//! while the server still writes, which many servers log as an error for every probe.
//! Therefore the rest is read and discarded until the server closes the connection;
//! then ours closes with FIN. If the rest takes too long or is too large, the
//! connection is reset.

use std::io::{self, Read};
use std::time::Duration;

use rustls::ClientConnection;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::now::Now;

/// Time limit for reading the rest.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Size limit of the rest, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// Bytes read at once.
const PART_BYTES: usize = 4096;

/// A connection whose result is known. Dropping it resets the connection.
#[derive(Debug)]
pub struct Parting {
    stream: TcpStream,
    /// Boxed, as most connections have none.
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
            // The server has closed first, so that no TIME_WAIT stays here.
            let _ = SockRef::from(&self.stream).set_linger(None);
        }
    }

    /// Returns whether the server has closed the connection.
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

    /// Read a part of the rest; 0 is the end.
    fn read(&mut self) -> io::Result<usize> {
        // Allocated here and not in the future: many connections may wait at a time.
        let mut data = [0; PART_BYTES];
        if let Some(tls) = &mut self.tls {
            while matches!(tls.reader().read(&mut data), Ok(1..)) {}
            let read = tls.read_tls(&mut Now(&self.stream))?;
            let state = tls.process_new_packets().map_err(io::Error::other)?;
            if read > 0 && !state.peer_has_closed() {
                return Ok(read);
            }
            // Only after the server's close_notify: a server that receives ours first
            // may drop the rest.
            tls.send_close_notify();
            while tls.wants_write() && tls.write_tls(&mut Now(&self.stream)).is_ok() {}
            self.tls = None;
        }
        self.stream.try_read(&mut data)
    }
}
