// SPDX-License-Identifier: Apache-2.0
//! The PING check: an echo request, and its reply.

use super::failure::Failure;
use super::icmp_packet::request;
use super::progress::{Progress, Stage};
use super::source::Source;
use crate::config::Check;

/// Send a request and wait for its reply.
pub(super) async fn ask(
    check: &Check,
    source: &Source,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let target = check.target.ip();
    progress.stage = Stage::Answer;
    let socket = source.ping(target.is_ipv4());
    let ticket = socket
        .expect(source.address(), target, |count| count & 0xffff)
        .map_err(Failure::Local)?;
    let number = ticket.id.1;
    let packet = request(target.is_ipv4(), socket.ping_id(), number, ticket.tag);
    let sent = || format!("sent echo request {number}");
    let mark = check.mark;
    // Such a socket receives nothing but echo replies.
    ticket.exchange(mark, &packet, progress, sent).await?;
    progress.note(|| "the echo reply came".to_owned());
    Ok(())
}
