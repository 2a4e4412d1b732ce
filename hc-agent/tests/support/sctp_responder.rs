// SPDX-License-Identifier: Apache-2.0
//! An SCTP server that does exactly what a test says; the kernel need not know SCTP.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::node::{PATIENCE, now};

const HEADER: usize = 12;
const OUR_TAG: u32 = 0x0a0b_0c0d;

/// The answer to INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// INIT ACK.
    Accept,
    /// INIT ACK, left to hardware to sum up.
    AcceptWithoutChecksum,
    /// INIT ACK, but only to the second INIT.
    AcceptSecond,
    /// ABORT, with a cause or without.
    Abort(Option<u16>),
    /// ABORT with the tag that INIT had.
    AbortReflected,
    Silent,
    WrongTag,
    WrongChecksum,
    WrongPort,
    /// A chunk that is longer than its packet.
    Garbage,
}

/// A server.
pub(crate) struct Responder {
    stop: Arc<AtomicBool>,
    aborted: Arc<AtomicBool>,
}

impl Responder {
    pub(crate) fn start(address: SocketAddr, habit: Habit) -> Self {
        let domain = Domain::for_address(address);
        let mut socket = Socket::new(domain, Type::RAW, Some(Protocol::SCTP)).unwrap();
        socket
            .bind(&SocketAddr::new(address.ip(), 0).into())
            .unwrap();
        let pause = Some(Duration::from_millis(50));
        socket.set_read_timeout(pause).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let aborted = Arc::new(AtomicBool::new(false));
        let (stopped, was_aborted) = (Arc::clone(&stop), Arc::clone(&aborted));
        thread::spawn(move || {
            let mut seen = 0;
            while !stopped.load(Ordering::Relaxed) {
                let mut packet = [0; 256];
                let Ok(length) = socket.read(&mut packet) else {
                    continue;
                };
                let at = if address.is_ipv4() { 20 } else { 0 };
                let packet = &packet[at..length];
                if packet[2..4] != address.port().to_be_bytes() {
                    continue;
                }
                assert!(is_right(packet), "{packet:?}");
                match packet[HEADER] {
                    1 => seen += 1,
                    6 if packet[4..8] == OUR_TAG.to_be_bytes() => {
                        was_aborted.store(true, Ordering::Relaxed);
                        continue;
                    }
                    _ => continue,
                }
                // RFC 9260, section 3.3.2: no tag before, and a chunk of 20 bytes.
                assert_eq!(packet[4..8], [0; 4]);
                assert_eq!(packet[HEADER..HEADER + 4], [1, 0, 0, 20]);
                assert_eq!(packet.len(), HEADER + 20);
                if habit == Habit::AcceptSecond && seen == 1 {
                    continue;
                }
                if let Some(answer) = answer(packet, habit) {
                    let to: IpAddr = address.ip();
                    let to = SocketAddr::new(to, 0).into();
                    socket.send_to(&answer, &to).unwrap();
                }
            }
        });
        Self { stop, aborted }
    }

    /// Whether ABORT has come after INIT ACK.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Relaxed)
    }

    /// Wait until ABORT comes after INIT ACK.
    pub(crate) async fn wait_for_abort(&self) {
        let end = now() + PATIENCE;
        while !self.is_aborted() {
            assert!(now() < end, "no ABORT");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn sum(packet: &[u8]) -> [u8; 4] {
    let mut packet = packet.to_vec();
    packet[8..12].fill(0);
    crc32c::crc32c(&packet).to_le_bytes()
}

fn is_right(packet: &[u8]) -> bool {
    packet[8..12] == sum(packet)
}

fn answer(init: &[u8], habit: Habit) -> Option<Vec<u8>> {
    let tag: [u8; 4] = init[HEADER + 4..HEADER + 8].try_into().unwrap();
    let mut answer = Vec::new();
    answer.extend(&init[2..4]);
    answer.extend(&init[..2]);
    answer.extend(tag);
    answer.extend([0; 4]);
    match habit {
        Habit::Silent => return None,
        Habit::Abort(None) => answer.extend([6, 0, 0, 4]),
        Habit::Abort(Some(cause)) => {
            answer.extend([6, 0, 0, 8]);
            answer.extend(cause.to_be_bytes());
            answer.extend([0, 4]);
        }
        Habit::AbortReflected => {
            answer[4..8].fill(0);
            answer.extend([6, 1, 0, 4]);
        }
        _ => {
            // INIT ACK with a state cookie of four bytes.
            answer.extend([2, 0, 0, 28]);
            answer.extend(OUR_TAG.to_be_bytes());
            answer.extend([0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
            answer.extend([0, 7, 0, 8, 1, 2, 3, 4]);
        }
    }
    match habit {
        Habit::WrongTag => answer[4] ^= 0x80,
        Habit::WrongPort => answer[1] ^= 0x80,
        Habit::Garbage => answer[15] = 200,
        _ => {}
    }
    let sum = sum(&answer);
    answer[8..12].copy_from_slice(&sum);
    match habit {
        Habit::AcceptWithoutChecksum => answer[8..12].fill(0),
        Habit::WrongChecksum => answer[8] ^= 1,
        _ => {}
    }
    Some(answer)
}
