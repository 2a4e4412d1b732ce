// SPDX-License-Identifier: Apache-2.0
//! What a probe does, prepared once when the checks file is read.

use std::collections::HashSet;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustls::pki_types::DnsName;

use super::{CodeRange, Method, Version};

/// What a probe does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    // Details are apart, and shared by the checks of a file that have the same: there
    // may be very many of them.
    /// ICMP or `ICMPv6` echo.
    Ping,
    /// Connect.
    Tcp,
    /// Connect, send a request, judge the status line.
    Http(Arc<HttpCheck>),
    /// The same inside TLS.
    Https(Arc<HttpsCheck>),
    /// Connect, send a `ClientHello`, wait for a `ServerHello`.
    TlsHello(Arc<TlsHelloCheck>),
    /// Send a datagram; only an ICMP error is a failure.
    UdpConnect,
    /// Send INIT, wait for INIT ACK.
    Sctp,
}

impl Kind {
    /// The name in the checks file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Tcp => "tcp",
            Self::Http(_) => "http",
            Self::Https(_) => "https",
            Self::TlsHello(_) => "tls-hello",
            Self::UdpConnect => "udp-connect",
            Self::Sctp => "sctp",
        }
    }

    /// All names, in the order of the documentation.
    pub const NAMES: [&str; 7] = [
        "ping",
        "tcp",
        "http",
        "https",
        "tls-hello",
        "udp-connect",
        "sctp",
    ];
}

/// What the request of an HTTP check says.
///
/// `path` and `host` must have passed [`is_path`](super::is_path) and
/// [`is_host`](super::is_host).
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its method.
    pub method: Method,
    /// Its target.
    pub path: &'a str,
    /// Its version.
    pub version: Version,
    /// Value of the Host header; 1.1 sends the address without one.
    pub host: Option<&'a str>,
}

impl Request<'_> {
    /// The bytes of it; every probe of a check sends the same.
    fn write(&self, target: SocketAddr, usual_port: u16) -> Box<[u8]> {
        use std::fmt::Write;

        let number = match self.version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        };
        let mut text =
            format!("{} {} HTTP/{number}\r\n", self.method.as_str(), self.path);
        let host = match (self.host, self.version) {
            (Some(host), _) => Some(host.to_owned()),
            (None, Version::Http11) => Some(authority(target, usual_port)),
            (None, Version::Http10) => None,
        };
        if let Some(host) = host {
            let _ = write!(text, "Host: {host}\r\n");
        }
        text.push_str(concat!(
            "User-Agent: octavia-xdp-hc/",
            env!("CARGO_PKG_VERSION"),
            "\r\nAccept: */*\r\nConnection: close\r\n",
        ));
        if self.method.wants_length() {
            text.push_str("Content-Length: 0\r\n");
        }
        text.push_str("\r\n");
        text.into_bytes().into()
    }
}

/// The address as a Host header spells it: the port only if it is not the usual one.
fn authority(target: SocketAddr, usual_port: u16) -> String {
    match target.ip() {
        IpAddr::V4(ip) if target.port() == usual_port => ip.to_string(),
        IpAddr::V6(ip) if target.port() == usual_port => format!("[{ip}]"),
        _ => target.to_string(),
    }
}

/// The request of an HTTP check and what it accepts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpCheck {
    /// The whole request, as sent.
    pub request: Box<[u8]>,
    /// Accepted status codes.
    pub expected: Box<[CodeRange]>,
}

impl HttpCheck {
    /// Write the request once; every probe of the check sends it.
    ///
    /// `path` and `host` must have passed [`is_path`](super::is_path) and
    /// [`is_host`](super::is_host).
    pub fn new(
        target: SocketAddr,
        method: Method,
        path: &str,
        version: Version,
        host: Option<&str>,
        expected: Vec<CodeRange>,
    ) -> Self {
        let request = Request {
            method,
            path,
            version,
            host,
        };
        Self::with(target, &request, expected)
    }

    /// The check that sends this request.
    pub fn with(
        target: SocketAddr,
        request: &Request<'_>,
        expected: Vec<CodeRange>,
    ) -> Self {
        Self {
            request: request.write(target, 80),
            expected: expected.into(),
        }
    }

    /// Whether a status code is a success.
    pub fn expects(&self, code: u16) -> bool {
        self.expected
            .iter()
            .any(|range| (range.first..=range.last).contains(&code))
    }
}

/// An HTTP check inside TLS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpsCheck {
    /// What is asked inside.
    pub http: HttpCheck,
    /// The name for SNI (RFC 6066, section 3), if any is sent.
    pub server_name: Option<DnsName<'static>>,
}

impl HttpsCheck {
    /// The check that sends this request. `server_name` must have passed
    /// [`is_server_name`](super::is_server_name).
    pub fn new(
        target: SocketAddr,
        request: &Request<'_>,
        expected: Vec<CodeRange>,
        server_name: Option<&str>,
    ) -> Self {
        Self {
            http: HttpCheck {
                request: request.write(target, 443),
                expected: expected.into(),
            },
            server_name: server_name
                .and_then(|name| DnsName::try_from(name.to_owned()).ok()),
        }
    }
}

/// What the `ClientHello` of a check says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsHelloCheck {
    /// The name for SNI; the message is put together when it is sent, as a copy in
    /// every check would cost more memory than all the rest of it.
    pub server_name: Option<Box<str>>,
}

impl TlsHelloCheck {
    /// The check with this name, which must have passed
    /// [`is_server_name`](super::is_server_name).
    pub fn new(server_name: Option<&str>) -> Self {
        Self {
            server_name: server_name.map(Into::into),
        }
    }
}

/// Details that the checks read so far have: equal ones are kept once.
#[derive(Default)]
pub(super) struct Details {
    http: HashSet<Arc<HttpCheck>>,
    https: HashSet<Arc<HttpsCheck>>,
    hello: HashSet<Arc<TlsHelloCheck>>,
}

impl Details {
    pub(super) fn http(&mut self, check: HttpCheck) -> Arc<HttpCheck> {
        once(&mut self.http, check)
    }

    pub(super) fn https(&mut self, check: HttpsCheck) -> Arc<HttpsCheck> {
        once(&mut self.https, check)
    }

    pub(super) fn hello(&mut self, check: TlsHelloCheck) -> Arc<TlsHelloCheck> {
        once(&mut self.hello, check)
    }
}

fn once<T: Eq + Hash>(known: &mut HashSet<Arc<T>>, value: T) -> Arc<T> {
    if let Some(found) = known.get(&value) {
        return Arc::clone(found);
    }
    let value = Arc::new(value);
    known.insert(Arc::clone(&value));
    value
}
