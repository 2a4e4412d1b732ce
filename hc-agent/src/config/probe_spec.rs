// SPDX-License-Identifier: Apache-2.0
//! Probes, prepared once when the checks file is read.

use std::collections::HashSet;
use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::DnsName;

use super::request::{CodeRange, Method, Request, Version};

/// What a probe does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeSpec {
    // Details are allocated separately and shared by checks with equal ones, as a file
    // may have very many checks.
    /// ICMP or `ICMPv6` echo.
    Ping,
    /// Connect.
    Tcp,
    /// Connect, send a request, judge the status line.
    Http(Arc<HttpSpec>),
    /// The same inside TLS.
    Https(Arc<HttpsSpec>),
    /// Connect, send a `ClientHello`, wait for a `ServerHello`.
    TlsHello(Arc<TlsHelloSpec>),
    /// Send a datagram; only an ICMP error is a failure.
    UdpConnect,
    /// Send INIT, wait for INIT ACK.
    Sctp,
}

impl ProbeSpec {
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

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ProxyProtocol {
    /// A line of text.
    #[clap(name = "1")]
    V1,
    /// A binary header.
    #[clap(name = "2")]
    V2,
}

/// The request of an HTTP check and what it accepts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpSpec {
    /// The whole request, as sent.
    pub request: Box<[u8]>,
    /// Accepted status codes.
    pub expected: Box<[CodeRange]>,
}

impl HttpSpec {
    /// Build the request once, for all probes of the check.
    ///
    /// `path` and `host` must have passed [`is_path`](super::request::is_path) and
    /// [`is_host`](super::request::is_host).
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

    /// A specification that sends this request.
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
pub struct HttpsSpec {
    /// The request inside TLS.
    pub http: HttpSpec,
    /// The name for SNI (RFC 6066, section 3), if any is sent.
    pub server_name: Option<DnsName<'static>>,
}

impl HttpsSpec {
    /// A specification that sends this request. `server_name` must have passed
    /// [`is_server_name`](super::request::is_server_name).
    pub fn new(
        target: SocketAddr,
        request: &Request<'_>,
        expected: Vec<CodeRange>,
        server_name: Option<&str>,
    ) -> Self {
        Self {
            http: HttpSpec {
                request: request.write(target, 443),
                expected: expected.into(),
            },
            server_name: server_name
                .and_then(|name| DnsName::try_from(name.to_owned()).ok()),
        }
    }
}

/// Content of a check's `ClientHello`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsHelloSpec {
    /// The name for SNI. The message is built when it is sent: a copy in every check
    /// would need more memory than the rest of the check.
    pub server_name: Option<Box<str>>,
}

impl TlsHelloSpec {
    /// A specification with this name, which must have passed
    /// [`is_server_name`](super::request::is_server_name).
    pub fn new(server_name: Option<&str>) -> Self {
        Self {
            server_name: server_name.map(Into::into),
        }
    }
}

/// Interns the specifications of the checks read so far: equal ones are shared.
#[derive(Default)]
pub(super) struct SharedSpecs {
    http: HashSet<Arc<HttpSpec>>,
    https: HashSet<Arc<HttpsSpec>>,
    hello: HashSet<Arc<TlsHelloSpec>>,
}

impl SharedSpecs {
    pub(super) fn http(&mut self, check: HttpSpec) -> Arc<HttpSpec> {
        once(&mut self.http, check)
    }

    pub(super) fn https(&mut self, check: HttpsSpec) -> Arc<HttpsSpec> {
        once(&mut self.https, check)
    }

    pub(super) fn hello(&mut self, check: TlsHelloSpec) -> Arc<TlsHelloSpec> {
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
