// SPDX-License-Identifier: Apache-2.0
//! One probe: what it does and what comes of it.

mod http;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout_at};

use crate::config::{Check, Kind};
use crate::queue::format::Reason;

/// Where probes come from; by default the kernel decides.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Source address, for targets of its family.
    pub address: Option<IpAddr>,
    /// Network device.
    pub interface: Option<String>,
}

/// How far a probe has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for the connection.
    Connect,
    /// Sending the request.
    Send,
    /// Waiting for the status line.
    Receive,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Send => "sending the request",
            Self::Receive => "waiting for the status line",
        })
    }
}

/// Why a probe has failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The target refused the connection.
    #[error("connection refused")]
    Refused,
    /// No answer in time.
    #[error("timeout while {0}")]
    Timeout(Stage),
    /// No way to the target.
    #[error("unreachable: {0}")]
    Unreachable(io::Error),
    /// The target ended the connection before its answer was whole.
    #[error("connection closed while {0}")]
    Closed(Stage),
    /// A status code that is not expected.
    #[error("status {0} is not expected")]
    BadStatus(u16),
    /// An answer that is no HTTP.
    #[error("malformed answer: {0}")]
    Malformed(&'static str),
    /// This node is at fault: it tells nothing about the target.
    #[error("error of this node: {0}")]
    Local(io::Error),
}

impl Failure {
    /// The number for it in the result queue.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Refused => Reason::REFUSED,
            Self::Timeout(_) => Reason::TIMEOUT,
            Self::Unreachable(_) => Reason::UNREACHABLE,
            Self::Closed(_) => Reason::CLOSED,
            Self::BadStatus(_) => Reason::BAD_STATUS,
            Self::Malformed(_) => Reason::MALFORMED,
            Self::Local(_) => Reason::LOCAL_ERROR,
        }
    }

    /// What an error of a socket means at a stage.
    fn of(error: io::Error, stage: Stage) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::CONNREFUSED) => Self::Refused,
            Some(Errno::TIMEDOUT) => Self::Timeout(stage),
            Some(Errno::CONNRESET | Errno::CONNABORTED | Errno::PIPE) => {
                Self::Closed(stage)
            }
            Some(
                Errno::MFILE
                | Errno::NFILE
                | Errno::NOBUFS
                | Errno::NOMEM
                | Errno::ADDRNOTAVAIL
                | Errno::ADDRINUSE
                | Errno::AFNOSUPPORT
                | Errno::AGAIN
                | Errno::NODEV
                | Errno::PERM,
            ) => Self::Local(error),
            _ => Self::Unreachable(error),
        }
    }
}

/// What a probe has found out.
#[derive(Debug)]
pub struct Outcome {
    /// Success, or what failed.
    pub result: Result<(), Failure>,
    /// Status code of an HTTP answer, 0 without one.
    pub status: u16,
    /// Time from the start of the probe to its end.
    pub took: Duration,
    /// Time from the timeout to the moment that the probe noticed it.
    pub overrun: Duration,
}

impl Outcome {
    /// The reason for the result queue.
    pub fn reason(&self) -> Reason {
        match &self.result {
            Ok(()) => Reason::NONE,
            Err(failure) => failure.reason(),
        }
    }
}

/// Probe once.
pub async fn run(check: &Check, source: &Source) -> Outcome {
    let start = Instant::now();
    let deadline = start + check.timeout;
    let mut stage = Stage::Connect;
    let mut status = 0;
    let ended = timeout_at(deadline, async {
        let stream = connect(check.target, source).await?;
        match &check.kind {
            // A connection that stands is all.
            Kind::Tcp => Ok(()),
            Kind::Http(http) => http::talk(stream, http, &mut stage, &mut status).await,
        }
    })
    .await;
    let now = Instant::now();
    Outcome {
        result: ended.unwrap_or(Err(Failure::Timeout(stage))),
        status,
        took: now - start,
        overrun: now.saturating_duration_since(deadline),
    }
}

/// Connect with a socket that costs the kernel little.
async fn connect(target: SocketAddr, source: &Source) -> Result<TcpStream, Failure> {
    let socket = socket(target, source).map_err(Failure::Local)?;
    let stream = TcpSocket::from_std_stream(socket.into())
        .connect(target)
        .await
        .map_err(|e| Failure::of(e, Stage::Connect))?;
    // A socket can connect to itself if nobody listens on a port of this node that
    // the kernel also picks as the source.
    if stream.local_addr().is_ok_and(|local| local == target) {
        return Err(Failure::Refused);
    }
    Ok(stream)
}

fn socket(target: SocketAddr, source: &Source) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(target), kind, Some(Protocol::TCP))?;
    // Closing sends RST and leaves no TIME_WAIT behind.
    socket.set_linger(Some(Duration::ZERO))?;
    // The ACK of the handshake rides on the request, or on the RST.
    socket.set_tcp_quickack(false)?;
    if let Some(interface) = &source.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    if let Some(address) = source.address
        && address.is_ipv4() == target.is_ipv4()
    {
        socket.bind(&SocketAddr::new(address, 0).into())?;
    }
    Ok(socket)
}
