// SPDX-License-Identifier: Apache-2.0
//! Where probes come from.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use socket2::Socket;

use super::error_limits::ErrorLimits;
use super::open_socket::Protocol;
use super::raw_socket::RawSocket;
use super::source_address::SourceAddress;

/// Where probes come from; by default the kernel decides.
///
/// Holds the sockets that pings and SCTP probes share, and what UDP probes know of each
/// other; clones share both, too.
#[derive(Clone, Debug, Default)]
pub struct Source {
    address: SourceAddress,
    sockets: Arc<Sockets>,
    error_limits: Arc<ErrorLimits>,
}

#[derive(Debug)]
struct Sockets {
    ping: [Arc<RawSocket>; 2],
    sctp: [Arc<RawSocket>; 2],
}

impl Default for Sockets {
    fn default() -> Self {
        let pair =
            |protocol| [true, false].map(|ipv4| Arc::new(RawSocket::new(protocol, ipv4)));
        Self {
            ping: pair(Protocol::Ping),
            sctp: pair(Protocol::Sctp),
        }
    }
}

impl Source {
    /// Probes with this source address, for targets of its family, and by this
    /// network device.
    pub fn new(address: Option<IpAddr>, interface: Option<String>) -> Self {
        Self {
            address: SourceAddress { address, interface },
            sockets: Arc::default(),
            error_limits: Arc::default(),
        }
    }

    /// The same for another thread, which must not wait for the sockets of this one.
    /// What hosts keep back they keep back from both.
    #[must_use]
    pub fn with_own_sockets(&self) -> Self {
        Self {
            sockets: Arc::default(),
            ..self.clone()
        }
    }

    /// Open the shared sockets now. What cannot be opened is an error only of the
    /// probes that need it.
    ///
    /// Call it before capabilities are given up, and before threads get tables of
    /// descriptors of their own: a socket is known by its number there.
    pub fn open(&self) {
        let sockets = self.sockets.ping.iter().chain(&self.sockets.sctp);
        for socket in sockets {
            let _ = socket.ensure_open(&self.address);
        }
    }

    /// Why pings are impossible here, if so.
    pub fn ping_error(&self, ipv4: bool) -> Option<io::Error> {
        self.ping(ipv4).ensure_open(&self.address).err()
    }

    /// Why SCTP probes are impossible here, if so.
    pub fn sctp_error(&self, ipv4: bool) -> Option<io::Error> {
        self.sctp(ipv4).ensure_open(&self.address).err()
    }

    pub(super) fn ping(&self, ipv4: bool) -> &Arc<RawSocket> {
        &self.sockets.ping[usize::from(!ipv4)]
    }

    pub(super) fn sctp(&self, ipv4: bool) -> &Arc<RawSocket> {
        &self.sockets.sctp[usize::from(!ipv4)]
    }

    /// Make a socket of this family come from here.
    pub(super) fn bind(&self, socket: &Socket, ipv4: bool) -> io::Result<()> {
        self.address.bind(socket, ipv4)
    }

    pub(super) fn error_limits(&self) -> &ErrorLimits {
        &self.error_limits
    }

    pub(super) fn address(&self) -> &SourceAddress {
        &self.address
    }
}
