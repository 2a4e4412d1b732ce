// SPDX-License-Identifier: Apache-2.0
//! The source address and device of probes.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::Socket;

/// Where packets of probes come from; by default the kernel decides.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceAddress {
    pub(super) address: Option<IpAddr>,
    pub(super) interface: Option<String>,
}

impl SourceAddress {
    /// Bind a socket of this family to the address and device.
    pub(super) fn bind(&self, socket: &Socket, ipv4: bool) -> io::Result<()> {
        if let Some(interface) = &self.interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        if let Some(address) = self.address
            && address.is_ipv4() == ipv4
        {
            socket.bind(&SocketAddr::new(address, 0).into())?;
        }
        Ok(())
    }
}
