// SPDX-License-Identifier: Apache-2.0
//! ICMP errors on connectionless sockets.

use std::io;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::Socket;

/// Report every ICMP error as an error of the socket.
pub(super) fn report_icmp_errors(socket: &Socket, ipv4: bool) -> io::Result<()> {
    if ipv4 {
        setsockopt(socket, sockopt::Ipv4RecvErr, &true)?;
    } else {
        setsockopt(socket, sockopt::Ipv6RecvErr, &true)?;
    }
    Ok(())
}
