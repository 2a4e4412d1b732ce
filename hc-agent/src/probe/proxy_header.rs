// SPDX-License-Identifier: Apache-2.0
//! The header of the PROXY protocol that comes before anything else a probe sends. A
//! server that expects it answers nothing without it.
//!
//! The format is that of `HAProxy`'s specification of the PROXY protocol, sections
//! 2.1 and 2.2, for connections that the sender opens for itself.

use std::borrow::Cow;
use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::failure::Failure;
use super::progress::{Progress, Stage};
use crate::config::ProxyProtocol;

/// Signature, version 2 with command LOCAL, no address family, and the length of the
/// addresses: there are none.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// Send the header in a packet of its own.
pub(super) async fn send(
    stream: &mut TcpStream,
    version: ProxyProtocol,
    progress: &mut Progress,
) -> Result<(), Failure> {
    progress.stage = Stage::Send;
    let failed = |e| Failure::of(e, Stage::Send);
    let source = stream.local_addr().map_err(failed)?;
    let destination = stream.peer_addr().map_err(failed)?;
    // Otherwise the request would wait for the acknowledgement of the header.
    stream.set_nodelay(true).map_err(failed)?;
    let header = header(version, source, destination);
    stream.write_all(&header).await.map_err(failed)?;
    progress.note(|| {
        let header = header.trim_ascii_end().escape_ascii();
        format!("sent the PROXY header {header}")
    });
    Ok(())
}

/// Version 1 has no command for health checks: the line names the two ends of the
/// connection. `UNKNOWN` would be valid, but servers may reject it.
fn header(
    version: ProxyProtocol,
    source: SocketAddr,
    destination: SocketAddr,
) -> Cow<'static, [u8]> {
    match version {
        ProxyProtocol::V1 => {
            let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let addresses = format!("{} {}", source.ip(), destination.ip());
            let ports = format!("{} {}", source.port(), destination.port());
            Cow::Owned(format!("PROXY {family} {addresses} {ports}\r\n").into_bytes())
        }
        ProxyProtocol::V2 => Cow::Borrowed(LOCAL),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(source: &str, destination: &str) -> Cow<'static, [u8]> {
        let (source, destination) =
            (source.parse().unwrap(), destination.parse().unwrap());
        header(ProxyProtocol::V1, source, destination)
    }

    #[test]
    fn headers_are_those_of_the_specification() {
        assert_eq!(
            *line("192.168.0.1:56324", "192.168.0.11:443"),
            *b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n"
        );
        assert_eq!(
            *line("[2001:db8::1]:1", "[2001:db8::2%3]:65535"),
            *b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n"
        );
        let end = "198.18.0.1:1".parse().unwrap();
        assert_eq!(
            *header(ProxyProtocol::V2, end, end),
            [
                0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a,
                0x20, 0x00, 0x00, 0x00
            ]
        );
    }

    proptest! {
        #[test]
        fn a_line_is_no_longer_than_a_server_reads(
            source: std::net::SocketAddrV6, destination: std::net::SocketAddrV6,
        ) {
            let line = header(ProxyProtocol::V1, source.into(), destination.into());
            prop_assert!(line.len() <= 104);
            prop_assert!(line.ends_with(b"\r\n"));
        }
    }
}
