// SPDX-License-Identifier: Apache-2.0
//! INIT, INIT ACK and ABORT of SCTP (RFC 9260). Numbers are big endian but for the
//! checksum.

use super::filter::Field;
use super::incoming::{Answer, Incoming, low};

/// The protocol number in the IP header.
pub(super) const PROTOCOL: socket2::Protocol = socket2::Protocol::SCTP;

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const ABORT: u8 = 6;
/// Flag of ABORT: its verification tag is the sender's own (RFC 9260, section 3.3.7).
const REFLECTED: u8 = 1;
/// Ports, verification tag, checksum.
const HEADER: usize = 12;
/// Type, flags, length.
const CHUNK: usize = 4;
const AT_TAG: usize = 4;
const AT_CHECKSUM: usize = 8;
/// First source port of probes; no socket reserves these ports.
pub(super) const FIRST_PORT: u16 = 0xc000;

/// Filter of a raw socket: answers to our probes.
pub(super) fn filter() -> (Field<2>, Field<2>) {
    let chunks = [INIT_ACK.into(), ABORT.into()];
    ((12, chunks), (2, [FIRST_PORT.into(), u16::MAX.into()]))
}

/// A packet with one chunk of constant length.
fn packet<const N: usize>(from: u16, to: u16, tag: u32, chunk: &[u8]) -> [u8; N] {
    let mut packet = [0; N];
    packet[..2].copy_from_slice(&from.to_be_bytes());
    packet[2..4].copy_from_slice(&to.to_be_bytes());
    packet[AT_TAG..AT_CHECKSUM].copy_from_slice(&tag.to_be_bytes());
    packet[HEADER..].copy_from_slice(chunk);
    let sum = crc32c::crc32c(&packet);
    packet[AT_CHECKSUM..HEADER].copy_from_slice(&sum.to_le_bytes());
    packet
}

/// INIT: our tag, a window of 64 KiB, one stream each way, the tag as first TSN.
pub(super) fn init(from: u16, to: u16, tag: u32) -> [u8; HEADER + 20] {
    let mut chunk = [0; 20];
    chunk[0] = INIT;
    chunk[3] = 20;
    chunk[4..8].copy_from_slice(&tag.to_be_bytes());
    chunk[8..12].copy_from_slice(&0x1_0000_u32.to_be_bytes());
    chunk[13] = 1;
    chunk[15] = 1;
    chunk[16..].copy_from_slice(&tag.to_be_bytes());
    // INIT itself has no verification tag.
    packet(from, to, 0, &chunk)
}

/// ABORT without a cause, with the peer's tag.
pub(super) fn abort(from: u16, to: u16, tag: u32) -> [u8; HEADER + CHUNK] {
    packet(from, to, tag, &[ABORT, 0, 0, 4])
}

/// Parse the answer to a probe.
pub(super) fn reply(packet: &[u8], from: std::net::IpAddr) -> Option<Incoming> {
    let chunk = packet.get(HEADER..)?;
    let [kind, flags, a, b] = *chunk.first_chunk::<CHUNK>()?;
    let length = usize::from(u16::from_be_bytes([a, b]));
    let chunk = chunk.get(..length).filter(|chunk| chunk.len() >= CHUNK)?;
    if !is_whole(packet) {
        return None;
    }
    let tag = u32::from_be_bytes(*packet[AT_TAG..].first_chunk()?);
    let word = |at: usize| Some(u32::from_be_bytes(*chunk.get(at..)?.first_chunk()?));
    let (tag, answer) = match kind {
        INIT_ACK => {
            let theirs = word(CHUNK).filter(|tag| chunk.len() >= 20 && *tag != 0)?;
            (Some(tag), Answer::InitAck(theirs))
        }
        ABORT => {
            let cause = word(CHUNK).map_or(0, |word| low(word >> 16));
            // A peer that has no such port can only return the tag of INIT, zero.
            let reflected = flags & REFLECTED != 0 && tag == 0;
            ((!reflected).then_some(tag), Answer::Abort(cause))
        }
        _ => return None,
    };
    let theirs = u16::from_be_bytes([packet[0], packet[1]]);
    let ours = u16::from_be_bytes([packet[2], packet[3]]);
    Some(Incoming {
        id: (from, u32::from(theirs) << 16 | u32::from(ours)),
        tag,
        answer,
    })
}

/// Whether the checksum is right, or zero: between virtual devices, a checksum left to
/// the hardware is never filled in. Ports and tag authenticate such a packet.
fn is_whole(packet: &[u8]) -> bool {
    let written = &packet[AT_CHECKSUM..HEADER];
    let sum = crc32c::crc32c(&packet[..AT_CHECKSUM]);
    let sum = crc32c::crc32c_append(sum, &[0; 4]);
    let sum = crc32c::crc32c_append(sum, &packet[HEADER..]);
    written == sum.to_le_bytes() || written == [0; 4]
}

/// The number of the probe that sent this packet.
pub(super) fn number_sent(packet: &[u8]) -> Option<u32> {
    let [a, b, c, d] = *packet.first_chunk()?;
    Some(u32::from_be_bytes([c, d, a, b]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn an_init_packet() {
        let packet = init(0xc001, 9, 0x0102_0305);
        assert_eq!(packet[..8], [0xc0, 1, 0, 9, 0, 0, 0, 0]);
        assert_eq!(packet[12..20], [1, 0, 0, 20, 1, 2, 3, 5]);
        assert!(is_whole(&packet));
        assert_eq!(number_sent(&packet), Some(0x0009_c001));
        assert!(reply(&packet, FROM).is_none());
    }

    #[test]
    fn an_init_ack_is_the_answer_only_whole_and_with_its_checksum() {
        let mut chunk = [0; 20];
        chunk[..8].copy_from_slice(&[INIT_ACK, 0, 0, 20, 0, 0, 0, 7]);
        let ack: [u8; 32] = packet(9, 0xc001, 5, &chunk);
        let incoming = reply(&ack, FROM).unwrap();
        assert_eq!(incoming.id, (FROM, 0x0009_c001));
        assert_eq!(incoming.tag, Some(5));
        assert_eq!(incoming.answer, Answer::InitAck(7));

        let mut broken = ack;
        broken[31] ^= 1;
        assert!(reply(&broken, FROM).is_none());
        broken[AT_CHECKSUM..HEADER].fill(0);
        assert!(reply(&broken, FROM).is_some());
        for end in 0..32 {
            assert!(reply(&ack[..end], FROM).is_none());
        }
    }

    #[test]
    fn an_abort_has_its_first_cause_and_a_tag_unless_that_is_reflected() {
        let cause: [u8; 20] = packet(9, 0xc001, 5, &[ABORT, 0, 0, 8, 0, 4, 0, 4]);
        let incoming = reply(&cause, FROM).unwrap();
        assert_eq!((incoming.tag, incoming.answer), (Some(5), Answer::Abort(4)));
        let plain: [u8; 16] = packet(9, 0xc001, 0, &[ABORT, 1, 0, 4]);
        let incoming = reply(&plain, FROM).unwrap();
        assert_eq!((incoming.tag, incoming.answer), (None, Answer::Abort(0)));
        let stray: [u8; 16] = packet(9, 0xc001, 0, &[ABORT, 0, 0, 4]);
        assert_eq!(reply(&stray, FROM).unwrap().tag, Some(0));
    }
}
