// SPDX-License-Identifier: Apache-2.0
//! The UDP-CONNECT check: send an empty datagram; only an ICMP error is a failure.
//!
//! Networks lose packets, and hosts limit ICMP errors ([`super::error_limits`]).
//! Therefore the datagram is repeated within the timeout at times when the host can
//! send an error. Silence is success only if the host could have sent one.

use std::io::{self, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::libc::{self, SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};

use super::error_limits::ErrorLimits;
use super::failure::Failure;
use super::icmp_errors::report_icmp_errors;
use super::progress::{Progress, Stage};
use super::source::Source;
use crate::config::Check;
use crate::state::State;

/// Datagrams of a probe, at most.
const TRIES: u32 = 4;
/// Time within which an error about a datagram arrives.
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// Probes that wait until the same host can send an error are spread randomly over this
/// time. Those of targets that are down come last, as they would use up the errors of
/// the others.
const TURN: Duration = Duration::from_millis(250);

/// One probe at work.
struct Probe<'a> {
    target: IpAddr,
    socket: UdpSocket,
    limits: &'a ErrorLimits,
    is_down: bool,
    start: Instant,
    timeout: Duration,
    deadline: Instant,
    /// When the last datagram was sent.
    sent: Instant,
}

/// Send datagrams and listen until the deadline. `state` is the target's known state.
pub(super) async fn ask(
    check: &Check,
    source: &Source,
    state: State,
    deadline: Instant,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let target = check.target;
    let socket = socket(check, source).map_err(Failure::Local)?;
    socket.connect(target).await.map_err(Failure::of_datagram)?;
    // If the kernel picks the target's own port as the source, nothing listens there.
    if socket.local_addr().is_ok_and(|local| local == target) {
        return Err(Failure::IcmpUnreachable("port"));
    }
    let mut probe = Probe {
        target: target.ip(),
        socket,
        limits: source.error_limits(),
        is_down: state == State::Down,
        start: progress.start,
        timeout: check.timeout,
        deadline,
        sent: progress.start,
    };
    progress.stage = Stage::Answer;
    let mut would_have_told = false;
    for number in 0..TRIES {
        match probe.wait_for_turn(number).await {
            Turn::Now => {}
            Turn::Never => break,
            Turn::Ended(result) => return ended(result, progress),
        }
        probe.send().await?;
        progress.note(|| "sent an empty datagram".to_owned());
        if let Some(result) = probe.listen(probe.sent + ROUND_TRIP).await {
            return ended(result, progress);
        }
        would_have_told |= probe.limits.would_have_told(probe.target, probe.sent);
    }
    if let Some(result) = probe.listen(deadline).await {
        return ended(result, progress);
    }
    // This process may be late: an error that has arrived meanwhile counts.
    if let Ok(Some(error)) | Err(error) = probe.socket.take_error() {
        return Err(probe.failure(error));
    }
    if !would_have_told {
        return Err(Failure::ErrorsLimited);
    }
    progress.note(|| "silence, which is success".to_owned());
    Ok(())
}

fn ended(result: Result<(), Failure>, progress: &mut Progress) -> Result<(), Failure> {
    if result.is_ok() {
        progress.note(|| "a datagram came back".to_owned());
    }
    result
}

/// Whether to send another datagram.
enum Turn {
    Now,
    /// Not in this probe.
    Never,
    /// An answer or an error has arrived.
    Ended(Result<(), Failure>),
}

impl Probe<'_> {
    /// Wait until a datagram is due and the host can send an error about it.
    async fn wait_for_turn(&mut self, number: u32) -> Turn {
        let mut at = self.start + self.timeout * number / TRIES;
        if number > 0 {
            at += self.limits.some_of(self.timeout / (4 * TRIES));
        }
        // The first datagram is sent at once, unless the target is down.
        let waits = number > 0 || self.is_down;
        loop {
            let ready = self.limits.ready_at(self.target).filter(|_| waits);
            if let Some(ready) = ready {
                let behind = if self.is_down { TURN } else { Duration::ZERO };
                at = at.max(ready + behind + self.limits.some_of(TURN));
            }
            if at + ROUND_TRIP > self.deadline {
                return Turn::Never;
            }
            if let Some(result) = self.listen(at).await {
                return Turn::Ended(result);
            }
            // Otherwise errors about other probes have arrived meanwhile.
            let now = self.limits.ready_at(self.target).filter(|_| waits);
            if now == ready {
                return Turn::Now;
            }
        }
    }

    async fn send(&mut self) -> Result<(), Failure> {
        self.sent = Instant::now();
        let sent = self.socket.send(&[]).await;
        sent.map(drop).map_err(|error| self.failure(error))
    }

    /// Wait for an answer or an error.
    async fn listen(&self, until: Instant) -> Option<Result<(), Failure>> {
        let until = until.min(self.deadline);
        let heard = timeout_at(until, self.socket.recv(&mut [0; 1])).await;
        let heard = heard.ok()?;
        Some(heard.map(drop).map_err(|error| self.failure(error)))
    }

    /// Turn an error into a failure, and record its sender.
    fn failure(&self, error: io::Error) -> Failure {
        let own = self.socket.local_addr().map(|local| local.ip()).ok();
        // This node does not limit errors to itself.
        if let Some(sender) = sender(&self.socket).filter(|sender| Some(*sender) != own) {
            self.limits.heard(self.target, sender, self.sent);
        }
        Failure::of_datagram(error)
    }
}

/// The sender of the ICMP error in a socket's error queue.
fn sender(socket: &UdpSocket) -> Option<IpAddr> {
    let mut packet = [0; 1];
    let mut parts = [IoSliceMut::new(&mut packet)];
    let mut control =
        nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, [u64; 8]);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let fd = socket.as_raw_fd();
    let message = recvmsg::<()>(fd, &mut parts, Some(&mut control), flags).ok()?;
    message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4RecvErr(error, Some(sender))
            if error.ee_origin == SO_EE_ORIGIN_ICMP =>
        {
            let address = u32::from_be(sender.sin_addr.s_addr);
            Some(IpAddr::V4(address.into()))
        }
        ControlMessageOwned::Ipv6RecvErr(error, Some(sender))
            if error.ee_origin == SO_EE_ORIGIN_ICMP6 =>
        {
            Some(IpAddr::V6(sender.sin6_addr.s6_addr.into()))
        }
        _ => None,
    })
}

fn socket(check: &Check, source: &Source) -> io::Result<UdpSocket> {
    let target = check.target;
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(target), kind, Some(Protocol::UDP))?;
    // Without this the kernel reports only missing ports, not missing hosts.
    report_icmp_errors(&socket, target.is_ipv4())?;
    source.bind(&socket, target.is_ipv4())?;
    if let Some(mark) = check.mark {
        socket.set_mark(mark.get())?;
    }
    UdpSocket::from_std(socket.into())
}
