// SPDX-License-Identifier: Apache-2.0
//! Why a check has its state, as a number of the result queue.

/// Why a check has its state. A file may contain numbers unknown to this version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reason(pub u8);

impl Reason {
    /// A success, or no result yet.
    pub const NONE: Self = Self(0);
    /// The target refused the connection.
    pub const REFUSED: Self = Self(1);
    /// No answer in time.
    pub const TIMEOUT: Self = Self(2);
    /// No route to the target.
    pub const UNREACHABLE: Self = Self(3);
    /// The target closed or reset the connection before its answer was complete.
    pub const CLOSED: Self = Self(4);
    /// An unexpected status code.
    pub const BAD_STATUS: Self = Self(5);
    /// An answer that is not HTTP.
    pub const MALFORMED: Self = Self(6);
    /// An error of the node itself.
    pub const LOCAL_ERROR: Self = Self(7);
    /// A TLS alert; the detail is its number.
    pub const TLS_ALERT: Self = Self(8);
    /// No TLS, or no version that we understand.
    pub const TLS_ERROR: Self = Self(9);
    /// An ICMP error: port or protocol unreachable.
    pub const ICMP_UNREACHABLE: Self = Self(10);
    /// SCTP ABORT; the detail is the code of its first cause.
    pub const SCTP_ABORT: Self = Self(11);
    /// Silence of a host that limits its ICMP errors, which is inconclusive.
    pub const ICMP_LIMITED: Self = Self(12);

    /// For logs and tables.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 13] = [
            "none",
            "refused",
            "timeout",
            "unreachable",
            "closed",
            "bad_status",
            "malformed",
            "local_error",
            "tls_alert",
            "tls_error",
            "icmp_unreachable",
            "sctp_abort",
            "icmp_limited",
        ];
        NAMES.get(usize::from(self.0)).copied().unwrap_or("other")
    }
}
