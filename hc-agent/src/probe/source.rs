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
/// Holds the sockets shared by ping and SCTP probes, and the ICMP errors that UDP
/// probes have received. Clones share both.
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
    /// A source with this address, for targets of its family, and this network device.
    pub fn new(address: Option<IpAddr>, interface: Option<String>) -> Self {
        Self {
            address: SourceAddress { address, interface },
            sockets: Arc::default(),
            error_limits: Arc::default(),
        }
    }

    /// A copy for another thread with sockets of its own, so that the threads do not
    /// wait for each other. The ICMP errors are shared, as hosts limit them per source
    /// address.
    #[must_use]
    pub fn with_own_sockets(&self) -> Self {
        Self {
            sockets: Arc::default(),
            ..self.clone()
        }
    }

    /// Open the shared sockets now. If one cannot be opened, only the probes that need
    /// it fail.
    ///
    /// Call this before dropping capabilities, and before threads get their own
    /// descriptor tables, in which the sockets keep their numbers.
    pub fn open(&self) {
        let sockets = self.sockets.ping.iter().chain(&self.sockets.sctp);
        for socket in sockets {
            let _ = socket.ensure_open(&self.address);
        }
    }

    /// The error if pings are impossible here.
    pub fn ping_error(&self, ipv4: bool) -> Option<io::Error> {
        self.ping(ipv4).ensure_open(&self.address).err()
    }

    /// The error if SCTP probes are impossible here.
    pub fn sctp_error(&self, ipv4: bool) -> Option<io::Error> {
        self.sctp(ipv4).ensure_open(&self.address).err()
    }

    pub(super) fn ping(&self, ipv4: bool) -> &Arc<RawSocket> {
        &self.sockets.ping[usize::from(!ipv4)]
    }

    pub(super) fn sctp(&self, ipv4: bool) -> &Arc<RawSocket> {
        &self.sockets.sctp[usize::from(!ipv4)]
    }

    /// Bind a socket of this family to the source.
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
