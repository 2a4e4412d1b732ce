// SPDX-License-Identifier: Apache-2.0
//! Echo requests and replies of ICMP (RFC 792) and `ICMPv6` (RFC 4443). Numbers are
//! big endian.

use std::net::IpAddr;

use super::filter::Field;
use super::incoming::{Answer, Incoming, low};

const REPLY_V4: u8 = 0;
const REQUEST_V4: u8 = 8;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;
/// Type, code, checksum, identifier, sequence.
const HEADER: usize = 8;
/// Bytes of a request; the tag follows the header.
const LENGTH: usize = 32;

/// The protocol to open a socket with.
pub(super) fn protocol(ipv4: bool) -> socket2::Protocol {
    if ipv4 {
        socket2::Protocol::ICMPV4
    } else {
        socket2::Protocol::ICMPV6
    }
}

/// Filter of a raw socket: replies to our requests.
pub(super) fn filter(ipv4: bool, id: u16) -> (Field<2>, Field<2>) {
    let reply = u32::from(if ipv4 { REPLY_V4 } else { REPLY_V6 });
    ((0, [reply; 2]), (4, [u32::from(id); 2]))
}

/// An echo request. `tag` follows its header and exposes forged replies.
pub(super) fn request(ipv4: bool, id: u16, sequence: u32, tag: u32) -> [u8; LENGTH] {
    let mut packet = *b"\0\0\0\0\0\0\0\0\0\0\0\0octavia-xdp-provider";
    packet[0] = if ipv4 { REQUEST_V4 } else { REQUEST_V6 };
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[6..8].copy_from_slice(&sequence.to_be_bytes()[2..]);
    packet[8..12].copy_from_slice(&tag.to_be_bytes());
    if ipv4 {
        // The kernel computes ICMPv6's checksum, which covers addresses as well.
        let sum = checksum(&packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

/// The internet checksum (RFC 1071) of an even number of bytes.
fn checksum(data: &[u8]) -> u16 {
    let words = data.chunks_exact(2);
    let mut sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !low(sum)
}

/// Parse an echo reply. `id` is our identifier if the kernel does not compare it.
pub(super) fn reply(packet: &[u8], from: IpAddr, id: Option<u16>) -> Option<Incoming> {
    let wanted = if from.is_ipv4() { REPLY_V4 } else { REPLY_V6 };
    let header = packet.first_chunk::<HEADER>()?;
    let found = u16::from_be_bytes([header[4], header[5]]);
    if header[..2] != [wanted, 0] || id.is_some_and(|id| id != found) {
        return None;
    }
    let tag = packet[HEADER..].first_chunk()?;
    Some(Incoming {
        id: (from, number(packet)?),
        tag: Some(u32::from_be_bytes(*tag)),
        answer: Answer::Echo,
    })
}

/// The sequence number of a request or reply.
fn number(packet: &[u8]) -> Option<u32> {
    let header = packet.first_chunk::<HEADER>()?;
    Some(u16::from_be_bytes([header[6], header[7]]).into())
}

/// The sequence number of our request that an error quotes. `id` is our identifier if the
/// kernel does not compare it and also delivers errors about requests of other programs.
pub(super) fn number_sent(packet: &[u8], id: Option<u16>) -> Option<u32> {
    let header = packet.first_chunk::<HEADER>()?;
    if id.is_some_and(|id| header[4..6] != id.to_be_bytes()) {
        return None;
    }
    number(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_and_its_reply() {
        let mut packet = request(true, 0x1234, 0x1_5678, 0x9abc_def1);
        assert_eq!(
            packet[..8],
            [8, 0, packet[2], packet[3], 0x12, 0x34, 0x56, 0x78]
        );
        // The sum over a packet with its checksum is all ones.
        assert_eq!(checksum(&packet), 0);
        packet[0] = 0;
        let from = "198.18.0.1".parse().unwrap();
        let incoming = reply(&packet, from, Some(0x1234)).unwrap();
        assert_eq!(incoming.id, (from, 0x5678));
        assert_eq!(incoming.tag, Some(0x9abc_def1));
        assert!(reply(&packet, from, Some(0x1235)).is_none());
        assert!(reply(&packet, "::1".parse().unwrap(), None).is_none());
        for end in 0..12 {
            assert!(reply(&packet[..end], from, None).is_none());
        }
    }

    #[test]
    fn an_error_about_another_programs_request_is_none_of_ours() {
        let packet = request(false, 0x1234, 0x5678, 1);
        assert_eq!(number_sent(&packet, Some(0x1234)), Some(0x5678));
        assert_eq!(number_sent(&packet, Some(0x1235)), None);
        assert_eq!(number_sent(&packet, Some(0x3412)), None);
        // Here the kernel has compared the identifier.
        assert_eq!(number_sent(&packet, None), Some(0x5678));
        assert_eq!(number_sent(&packet[..7], None), None);
    }
}
