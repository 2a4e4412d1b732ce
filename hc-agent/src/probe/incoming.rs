// SPDX-License-Identifier: Apache-2.0
//! Packets received by a raw socket, and the probe that each belongs to.

use std::net::IpAddr;

/// Answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Echo reply.
    Echo,
    /// INIT ACK with the tag of the other side.
    InitAck(u32),
    /// ABORT with the code of its first cause, or 0.
    Abort(u16),
    /// ICMP error, as an errno.
    Icmp(i32),
}

/// Identifies the probe of a packet: the peer's address and a number in its packets.
pub(super) type Id = (IpAddr, u32);

/// An answer and the probe that it belongs to.
pub(super) struct Incoming {
    pub(super) id: Id,
    /// If present, must equal the probe's tag.
    pub(super) tag: Option<u32>,
    pub(super) answer: Answer,
}

/// The lower 16 bits.
pub(super) fn low(number: u32) -> u16 {
    let [_, _, high, low] = number.to_be_bytes();
    u16::from_be_bytes([high, low])
}
