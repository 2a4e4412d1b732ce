// SPDX-License-Identifier: Apache-2.0
//! Why a probe has failed.

use std::io;

use rustix::io::Errno;

use super::progress::Stage;
use crate::reason::Reason;

/// Why a probe has failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The target refused the connection.
    #[error("connection refused")]
    Refused,
    /// No answer in time.
    #[error("timeout while {0}")]
    Timeout(Stage),
    /// No route to the target.
    #[error("unreachable: {0}")]
    Unreachable(io::Error),
    /// The target closed the connection before its answer was complete.
    #[error("connection closed while {0}")]
    Closed(Stage),
    /// An unexpected status code.
    #[error("status {0} is not expected")]
    BadStatus(u16),
    /// An answer that violates the protocol.
    #[error("malformed answer: {0}")]
    Malformed(&'static str),
    /// An error of this node; it says nothing about the target.
    #[error("error of this node: {0}")]
    Local(io::Error),
    /// The target sent a TLS alert.
    #[error("TLS alert {0} ({name:?})", name = rustls::AlertDescription::from(*.0))]
    TlsAlert(u8),
    /// The target does not speak TLS, or no version that we understand.
    #[error("TLS: {0}")]
    Tls(String),
    /// The target has no such port, or does not know the protocol.
    #[error("ICMP: {0} unreachable")]
    IcmpUnreachable(&'static str),
    /// Inconclusive silence, as the sender of ICMP errors may be suppressing them.
    #[error("silence, while the host limits its ICMP errors: it may be up or down")]
    ErrorsLimited,
    /// The target refused the association, with the code of the first cause or 0.
    #[error("SCTP ABORT, cause {0}")]
    SctpAbort(u16),
}

impl Failure {
    /// Whether a shared resource of this node has run out; fewer probes may help.
    pub fn is_shortage(&self) -> bool {
        let Self::Local(error) = self else {
            return false;
        };
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        errno.is_some_and(is_shortage)
    }

    /// Its number in the result queue.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Refused => Reason::REFUSED,
            Self::Timeout(_) => Reason::TIMEOUT,
            Self::Unreachable(_) => Reason::UNREACHABLE,
            Self::Closed(_) => Reason::CLOSED,
            Self::BadStatus(_) => Reason::BAD_STATUS,
            Self::Malformed(_) => Reason::MALFORMED,
            Self::Local(_) => Reason::LOCAL_ERROR,
            Self::TlsAlert(_) => Reason::TLS_ALERT,
            Self::Tls(_) => Reason::TLS_ERROR,
            Self::IcmpUnreachable(_) => Reason::ICMP_UNREACHABLE,
            Self::SctpAbort(_) => Reason::SCTP_ABORT,
            Self::ErrorsLimited => Reason::ICMP_LIMITED,
        }
    }

    /// The failure for an error of a TCP socket at a stage.
    pub(super) fn of(error: io::Error, stage: Stage) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::CONNREFUSED) => Self::Refused,
            Some(Errno::TIMEDOUT) => Self::Timeout(stage),
            Some(Errno::CONNRESET | Errno::CONNABORTED | Errno::PIPE) => {
                Self::Closed(stage)
            }
            Some(errno) if is_shortage(errno) => Self::Local(error),
            Some(Errno::ADDRINUSE | Errno::AFNOSUPPORT | Errno::NODEV | Errno::PERM) => {
                Self::Local(error)
            }
            _ => Self::Unreachable(error),
        }
    }

    /// The failure for an error of a connectionless socket, which ICMP has caused.
    pub(super) fn of_datagram(error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::CONNREFUSED) => Self::IcmpUnreachable("port"),
            // ICMPv6 calls it a parameter problem.
            Some(Errno::NOPROTOOPT | Errno::PROTO) => Self::IcmpUnreachable("protocol"),
            _ => Self::of(error, Stage::Answer),
        }
    }
}

/// Whether descriptors, memory or ports have run out.
fn is_shortage(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::MFILE
            | Errno::NFILE
            | Errno::NOBUFS
            | Errno::NOMEM
            | Errno::ADDRNOTAVAIL
            | Errno::AGAIN
    )
}
