// SPDX-License-Identifier: Apache-2.0
//! Reading and writing that does not wait, for a library that waits by itself else.

use std::io::{self, Read, Write};

use tokio::net::TcpStream;

/// A stream for calls that do not wait.
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
