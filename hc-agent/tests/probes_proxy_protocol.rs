// SPDX-License-Identifier: Apache-2.0
//! Servers that insist on the header of the PROXY protocol, and read it as
//! `HAProxy`'s specification of the PROXY protocol has a receiver do.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use octavia_xdp_hc::config::{
    Check, HttpSpec, HttpsSpec, ProbeSpec, ProxyProtocol, TlsHelloSpec,
};
use octavia_xdp_hc::probe::{Source, run};
use octavia_xdp_hc::reason::Reason;
use rustls::version::TLS13;
use rustls::{ServerConnection, StreamOwned};

use crate::support::documents::{get, single};
use crate::support::node::PATIENCE;
use crate::support::server::tls_config;

const SIGNATURE: &[u8] = b"\x0D\x0A\x0D\x0A\x00\x0D\x0A\x51\x55\x49\x54\x0A";
/// Longest line of version 1 without its end.
const LONGEST: usize = 105;

/// The ends of a connection as a header names them: source, destination.
type Ends = (SocketAddr, SocketAddr);

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Read a header of version 1 up to its end.
fn read_line(stream: &mut TcpStream) -> io::Result<Ends> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
        if !b"PROXY ".starts_with(&line[..line.len().min(6)]) || line.len() > LONGEST + 2
        {
            return Err(invalid("no header of version 1"));
        }
    }
    let text = String::from_utf8(line).map_err(|_| invalid("no ASCII"))?;
    let words: Vec<_> = text.trim_end().split(' ').collect();
    let &[_, family, source, destination, from, to] = words.as_slice() else {
        return Err(invalid(&text));
    };
    let end = |address: &str, port: &str| {
        let address = address.parse().map_err(|_| invalid(&text))?;
        let end = SocketAddr::new(address, port.parse().map_err(|_| invalid(&text))?);
        match (family, end.is_ipv4()) {
            ("TCP4", true) | ("TCP6", false) => Ok(end),
            _ => Err(invalid(&text)),
        }
    };
    Ok((end(source, from)?, end(destination, to)?))
}

/// Read a header of version 2, which must be that of a health check.
fn read_local(stream: &mut TcpStream) -> io::Result<()> {
    let mut header = [0; 16];
    stream.read_exact(&mut header)?;
    if !header.starts_with(SIGNATURE) || header[12] != 0x20 || header[13] != 0 {
        return Err(invalid("no LOCAL command of version 2"));
    }
    let length = u16::from_be_bytes([header[14], header[15]]);
    stream.read_exact(&mut vec![0; length.into()])
}

/// Take one connection: read the header, then talk.
fn serve(listener: &TcpListener, version: ProxyProtocol, kind: &str) -> io::Result<()> {
    let (mut stream, client) = listener.accept()?;
    match version {
        ProxyProtocol::V1 => {
            let ends = read_line(&mut stream)?;
            assert_eq!(ends, (client, listener.local_addr()?));
        }
        ProxyProtocol::V2 => read_local(&mut stream)?,
    }
    match kind {
        "http" => answer(stream),
        "https" => answer(tls(stream)),
        "tls-hello" => {
            // The probe ends the handshake that it begins.
            let _ = tls(stream).read(&mut [0]);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn tls(stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
    StreamOwned::new(ServerConnection::new(tls_config(&TLS13)).unwrap(), stream)
}

fn answer(mut stream: impl Read + Write) -> io::Result<()> {
    let mut request = [0; 4096];
    let length = stream.read(&mut request)?;
    if !request[..length].starts_with(b"GET / HTTP/1.0\r\n") {
        return Err(invalid("no request after the header"));
    }
    stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n")?;
    stream.flush()
}

fn checks(target: SocketAddr) -> [Check; 4] {
    let (request, codes) = get(200);
    [
        ProbeSpec::Tcp,
        ProbeSpec::Http(Arc::new(HttpSpec::with(target, &request, codes.clone()))),
        ProbeSpec::Https(Arc::new(HttpsSpec::new(target, &request, codes, None))),
        ProbeSpec::TlsHello(Arc::new(TlsHelloSpec::new(None))),
    ]
    .map(|probe| single(probe, target, PATIENCE))
}

/// Probe a server that wants a version, with or without a header; returns the reason
/// and what the server found.
async fn probe(
    local: &str,
    check: usize,
    wanted: ProxyProtocol,
    sent: Option<ProxyProtocol>,
) -> (Reason, io::Result<()>) {
    let listener = TcpListener::bind(local).unwrap();
    let mut check = checks(listener.local_addr().unwrap())[check].clone();
    check.proxy_protocol = sent;
    let kind = check.probe.name();
    let server = thread::spawn(move || serve(&listener, wanted, kind));
    let outcome = run(&check, &Source::default()).await;
    (outcome.reason(), server.join().unwrap())
}

async fn verify(local: &str) {
    use ProxyProtocol::{V1, V2};
    for check in 0..4 {
        for version in [V1, V2] {
            let (reason, server) = probe(local, check, version, Some(version)).await;
            assert_eq!(reason, Reason::NONE, "{check} {version:?} {server:?}");
            assert!(server.is_ok(), "{check} {version:?} {server:?}");
        }
        for (wanted, sent) in [(V1, None), (V2, None), (V1, Some(V2)), (V2, Some(V1))] {
            // A server never sees a connection that is reset before its first byte.
            if check == 0 && sent.is_none() {
                continue;
            }
            let (reason, server) = probe(local, check, wanted, sent).await;
            assert!(server.is_err(), "{check} {wanted:?} {sent:?}");
            // Without a request, the connection alone is the result.
            assert_eq!(reason == Reason::NONE, check == 0, "{check} {wanted:?}");
        }
    }
}

#[tokio::test]
async fn a_server_reads_the_header_that_it_wants_and_then_the_request() {
    verify("127.0.0.1:0").await;
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("not with IPv6: there is none here");
        return;
    }
    verify("[::1]:0").await;
}
