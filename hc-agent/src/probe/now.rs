// SPDX-License-Identifier: Apache-2.0
//! Non-blocking reads and writes, for a library with a blocking interface.

use std::io::{self, Read, Write};

use tokio::net::TcpStream;

/// A stream whose calls return `WouldBlock` instead of waiting.
pub(super) struct Now<'a>(pub(super) &'a TcpStream);

impl Read for Now<'_> {
    fn read(&mut self, data: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(data)
    }
}

impl Write for Now<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.try_write(data)
    }

    fn write_vectored(&mut self, data: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
