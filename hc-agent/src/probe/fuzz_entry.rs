// SPDX-License-Identifier: Apache-2.0
//! The parsers of untrusted bytes, for fuzzing: without sockets or time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::http::Answer;
use super::progress::Progress;
use super::{icmp_packet, sctp_packet};
use crate::config::{CodeRange, HttpSpec, Method, Version};

/// Feed an answer to the HTTP check in pieces of some size.
///
/// Returns whether the answer was good, and its status, once it is judged.
///
/// # Panics
///
/// If the parser asks for too many bytes, or does not judge a full buffer.
pub fn http(data: &[u8], piece: usize) -> Option<(bool, u16)> {
    let target = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 80);
    let codes = vec![CodeRange {
        first: 200,
        last: 299,
    }];
    let check = HttpSpec::new(target, Method::Get, "/", Version::Http10, None, codes);
    let mut progress = Progress::new(false);
    let mut answer = Answer::default();
    for piece in data.chunks(piece.max(1)) {
        let room = usize::try_from(answer.room()).expect("8192 at most");
        assert!((1..=8192).contains(&room), "room for {room} bytes");
        answer
            .data
            .extend_from_slice(&piece[..piece.len().min(room)]);
        if let Some(result) = answer.look(&check, &mut progress) {
            return Some((result.is_ok(), progress.detail));
        }
        assert!(answer.room() > 0, "a full buffer was not judged");
    }
    None
}

/// Parse a packet as the probes with raw sockets do: ICMP, SCTP, and errors about both.
pub fn packet(data: &[u8]) {
    let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let _ = icmp_packet::reply(data, from, Some(1));
    let _ = icmp_packet::reply(data, from, None);
    let _ = icmp_packet::number_sent(data, Some(1));
    let _ = sctp_packet::reply(data, from);
    let _ = sctp_packet::number_sent(data);
}
