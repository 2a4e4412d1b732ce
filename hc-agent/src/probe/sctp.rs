// SPDX-License-Identifier: Apache-2.0
//! The SCTP check: INIT, wait for INIT ACK, then ABORT. It uses a raw socket, as nodes
//! may lack SCTP.

use super::failure::Failure;
use super::incoming::{Answer, low};
use super::progress::{Progress, Stage};
use super::sctp_packet::{FIRST_PORT, abort, init};
use super::source::Source;
use crate::config::Check;

/// Send INIT and wait for the answer.
pub(super) async fn ask(
    check: &Check,
    source: &Source,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let target = check.target;
    progress.stage = Stage::Answer;
    let number = |count: u32| {
        let local = FIRST_PORT | low(count) & !FIRST_PORT;
        u32::from(target.port()) << 16 | u32::from(local)
    };
    let socket = source.sctp(target.is_ipv4());
    let ticket = socket
        .expect(source.address(), target.ip(), number)
        .map_err(Failure::Local)?;
    let local = low(ticket.id.1);
    let packet = init(local, target.port(), ticket.tag);
    let sent = || format!("sent INIT from port {local}");
    let mark = check.mark;
    match ticket.exchange(mark, &packet, progress, sent).await? {
        Answer::Abort(cause) => {
            progress.detail = cause;
            Err(Failure::SctpAbort(cause))
        }
        Answer::InitAck(tag) => {
            progress.note(|| "INIT ACK came, ABORT sent".to_owned());
            // Best effort: the peer keeps no state for us yet.
            let _ = ticket.send(mark, &abort(local, target.port(), tag));
            Ok(())
        }
        // All else read from such a socket are ICMP errors, which `exchange` handles.
        Answer::Echo | Answer::Icmp(_) => Err(Failure::Malformed("not SCTP")),
    }
}
