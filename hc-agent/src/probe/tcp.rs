// SPDX-License-Identifier: Apache-2.0
//! TCP connections that cost the kernel little.

use std::io;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpSocket, TcpStream};

use super::failure::Failure;
use super::progress::{Progress, Stage};
use super::source::Source;
use crate::config::Check;

/// Connect.
pub(super) async fn connect(
    check: &Check,
    source: &Source,
    progress: &mut Progress,
) -> Result<TcpStream, Failure> {
    let target = check.target;
    let socket = socket(check, source).map_err(Failure::Local)?;
    let stream = TcpSocket::from_std_stream(socket.into())
        .connect(target)
        .await
        .map_err(|e| Failure::of(e, Stage::Connect))?;
    // For a target on this node without a listener, the kernel may pick the same port
    // as the source; then the socket connects to itself.
    if stream.local_addr().is_ok_and(|local| local == target) {
        return Err(Failure::Refused);
    }
    progress.note(|| match stream.local_addr() {
        Ok(local) => format!("connected from {local}"),
        Err(_) => "connected".to_owned(),
    });
    Ok(stream)
}

fn socket(check: &Check, source: &Source) -> io::Result<Socket> {
    let target = check.target;
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(target), kind, Some(Protocol::TCP))?;
    // Closing sends RST and leaves no TIME_WAIT, unless the server has finished its
    // answer (see parting.rs).
    socket.set_linger(Some(Duration::ZERO))?;
    // The ACK of the handshake is sent with the request or the RST.
    socket.set_tcp_quickack(false)?;
    source.bind(&socket, target.is_ipv4())?;
    if let Some(mark) = check.mark {
        socket.set_mark(mark.get())?;
    }
    Ok(socket)
}
