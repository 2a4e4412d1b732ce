// SPDX-License-Identifier: Apache-2.0
//! What probes do with the bytes of strangers, for fuzzing: no sockets, no time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::http::Answer;
use super::progress::Progress;
use super::{icmp_packet, sctp_packet};
use crate::config::{CodeRange, HttpSpec, Method, Version};

/// Feed an answer to the HTTP check in pieces of some size.
///
/// Returns whether it was judged, and if so whether it was good, and the status.
///
/// # Panics
///
/// If more bytes are asked for than the probe allows, or a full buffer is not judged.
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

/// Read a packet as the probes of raw sockets do: ICMP, SCTP, and errors about both.
pub fn packet(data: &[u8]) {
    let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let _ = icmp_packet::reply(data, from, Some(1));
    let _ = icmp_packet::reply(data, from, None);
    let _ = icmp_packet::number_sent(data, Some(1));
    let _ = sctp_packet::reply(data, from);
    let _ = sctp_packet::number_sent(data);
}
