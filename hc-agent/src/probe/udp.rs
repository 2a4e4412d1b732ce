// SPDX-License-Identifier: Apache-2.0
//! The UDP-CONNECT check: an empty datagram, and an ICMP error is the only failure.

use std::io;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};

use super::failure::Failure;
use super::icmp_errors::report_icmp_errors;
use super::progress::{Progress, Stage};
use super::source::Source;
use crate::config::Check;

/// Send a datagram and listen until the deadline: who is silent is up.
pub(super) async fn ask(
    check: &Check,
    source: &Source,
    deadline: Instant,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let target = check.target;
    let socket = socket(check, source).map_err(Failure::Local)?;
    socket.connect(target).await.map_err(Failure::of_datagram)?;
    // Nobody listens if the kernel could pick the target's own port as the source.
    if socket.local_addr().is_ok_and(|local| local == target) {
        return Err(Failure::IcmpUnreachable("port"));
    }
    socket.send(&[]).await.map_err(Failure::of_datagram)?;
    progress.stage = Stage::Answer;
    progress.note(|| "sent an empty datagram".to_owned());
    let mut some = [0; 1];
    match timeout_at(deadline, socket.recv(&mut some)).await {
        Ok(Ok(_)) => progress.note(|| "a datagram came back".to_owned()),
        Ok(Err(error)) => return Err(Failure::of_datagram(error)),
        // We may be late: what has come meanwhile counts.
        Err(_) => match socket.take_error() {
            Ok(None) => progress.note(|| "silence, which is success".to_owned()),
            Ok(Some(error)) | Err(error) => return Err(Failure::of_datagram(error)),
        },
    }
    Ok(())
}

fn socket(check: &Check, source: &Source) -> io::Result<UdpSocket> {
    let target = check.target;
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(target), kind, Some(Protocol::UDP))?;
    // Without it the kernel reports missing ports only, not of missing hosts.
    report_icmp_errors(&socket, target.is_ipv4())?;
    source.bind(&socket, target.is_ipv4())?;
    if let Some(mark) = check.mark {
        socket.set_mark(mark.get())?;
    }
    UdpSocket::from_std(socket.into())
}
