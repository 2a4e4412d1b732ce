// SPDX-License-Identifier: Apache-2.0
//! What comes to a raw socket, and which probe it is for.

use std::net::IpAddr;

/// What has come for a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Echo reply.
    Echo,
    /// INIT ACK with the tag of the other side.
    InitAck(u32),
    /// ABORT with the code of its first cause, or 0.
    Abort(u16),
    /// The error that an ICMP message stands for.
    Icmp(i32),
}

/// Which probe a packet is for: the other side and a number within its packets.
pub(super) type Id = (IpAddr, u32);

/// An answer and where it belongs.
pub(super) struct Incoming {
    pub(super) id: Id,
    /// Compared to the probe's own, if the packet has it.
    pub(super) tag: Option<u32>,
    pub(super) answer: Answer,
}

/// The lower half.
pub(super) fn low(number: u32) -> u16 {
    let [_, _, high, low] = number.to_be_bytes();
    u16::from_be_bytes([high, low])
}
