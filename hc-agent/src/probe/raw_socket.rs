// SPDX-License-Identifier: Apache-2.0
//! Sockets that many probes share. A raw socket of each probe's own would get a copy
//! of what comes for all others.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvfrom, recvmsg,
};
use socket2::{Domain, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::failure::Failure;
use super::filter::filter;
use super::icmp_errors::report_icmp_errors;
use super::incoming::{Answer, Id, Incoming, low};
use super::progress::Progress;
use super::source_address::SourceAddress;
use super::{icmp_packet, sctp_packet};

/// Packets that are read before anything else gets its turn.
const PACKETS_AT_ONCE: usize = 64;
/// Wanted buffer for packets that have come; the kernel may give less.
const BUFFER_BYTES: usize = 4 << 20;
/// Numbers that are tried for a probe before giving up.
const TRIES: u32 = 256;
/// Longest packet that is looked at.
const PACKET_BYTES: usize = 256;
/// Time after which a request is sent again, as TCP and SCTP do (RFC 9260, section 16:
/// RTO.Initial): networks lose packets.
const RESEND_AFTER: Duration = Duration::from_secs(1);

/// What such a socket speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// ICMP or `ICMPv6`, echo only.
    Ping,
    /// SCTP by hand.
    Sctp,
}

#[derive(Debug)]
struct Waiting {
    tag: u32,
    answer: Option<Answer>,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<Id, Waiting>,
    counter: u32,
    /// That the socket has, 0 for none.
    mark: u32,
    /// Alive as long as a task reads the socket.
    reader: Weak<()>,
}

/// One socket and the probes that use it.
#[derive(Debug)]
pub(super) struct RawSocket {
    protocol: Protocol,
    pub(super) ipv4: bool,
    seed: RandomState,
    socket: OnceLock<Result<Opened, i32>>,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct Opened {
    socket: Arc<Socket>,
    raw: bool,
}

impl RawSocket {
    pub(super) fn new(protocol: Protocol, ipv4: bool) -> Self {
        Self {
            protocol,
            ipv4,
            seed: RandomState::new(),
            socket: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// Open the socket if it is not yet, and say whether it can be used.
    pub(super) fn ensure_open(&self, source: &SourceAddress) -> io::Result<()> {
        self.opened(source).map(drop)
    }

    fn opened(&self, source: &SourceAddress) -> io::Result<&Opened> {
        let code = |e: io::Error| e.raw_os_error().unwrap_or(libc::EIO);
        self.socket
            .get_or_init(|| self.open(source).map_err(code))
            .as_ref()
            .map_err(|code| io::Error::from_raw_os_error(*code))
    }

    fn open(&self, source: &SourceAddress) -> io::Result<Opened> {
        let domain = if self.ipv4 {
            Domain::IPV4
        } else {
            Domain::IPV6
        };
        let number = match self.protocol {
            Protocol::Ping => icmp_packet::protocol(self.ipv4),
            Protocol::Sctp => sctp_packet::PROTOCOL,
        };
        // A ping needs no capability where net.ipv4.ping_group_range has our group.
        let plain = (self.protocol == Protocol::Ping)
            .then(|| Socket::new(domain, Type::DGRAM, Some(number)).ok())
            .flatten();
        let raw = plain.is_none();
        let socket = match plain {
            Some(socket) => socket,
            None => Socket::new(domain, Type::RAW, Some(number))?,
        };
        socket.set_nonblocking(true)?;
        if raw {
            let (bytes, half) = match self.protocol {
                Protocol::Ping => icmp_packet::filter(self.ipv4, self.ping_id()),
                Protocol::Sctp => sctp_packet::filter(),
            };
            socket.attach_filter(&filter(self.ipv4, bytes, half))?;
        }
        report_icmp_errors(&socket, self.ipv4)?;
        socket.set_recv_buffer_size(BUFFER_BYTES)?;
        source.bind(&socket, self.ipv4)?;
        Ok(Opened {
            socket: Arc::new(socket),
            raw,
        })
    }

    /// The identifier of our echo requests on a raw socket.
    pub(super) fn ping_id(&self) -> u16 {
        low(self.random(u32::MAX))
    }

    fn random(&self, number: u32) -> u32 {
        (self.seed.hash_one(number) >> 32) as u32
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for the answer to a probe. `id` makes the number within packets of a
    /// count that never stops.
    pub(super) fn expect(
        self: &Arc<Self>,
        source: &SourceAddress,
        address: IpAddr,
        id: impl Fn(u32) -> u32,
    ) -> io::Result<Ticket> {
        let opened = self.opened(source)?;
        let mut state = self.lock();
        for _ in 0..TRIES {
            state.counter = state.counter.wrapping_add(1);
            let id = (address, id(state.counter));
            // Never zero: SCTP has a meaning for that.
            let tag = self.random(state.counter) | 1;
            if state.waiting.contains_key(&id) {
                continue;
            }
            state.waiting.insert(
                id,
                Waiting {
                    tag,
                    answer: None,
                    waker: None,
                },
            );
            let ticket = Ticket {
                socket: Arc::clone(self),
                opened: opened.clone(),
                id,
                tag,
            };
            if state.reader.strong_count() == 0 {
                state.reader = read(self, opened)?;
            }
            return Ok(ticket);
        }
        Err(io::Error::from(io::ErrorKind::AddrInUse))
    }

    fn deliver(&self, incoming: &Incoming) {
        let mut state = self.lock();
        let Some(waiting) = state.waiting.get_mut(&incoming.id) else {
            return;
        };
        if incoming.tag.is_some_and(|tag| tag != waiting.tag) {
            return;
        }
        waiting.answer.get_or_insert(incoming.answer);
        let waker = waiting.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Read all that has come, or a good part of it. Returns whether that was all.
    fn drain(&self, opened: &Opened) -> bool {
        let fd = opened.socket.as_raw_fd();
        let mut packet = [0; PACKET_BYTES];
        for _ in 0..PACKETS_AT_ONCE {
            match recvfrom::<SockaddrStorage>(fd, &mut packet) {
                Ok((length, Some(from))) => {
                    let data = &packet[..length.min(PACKET_BYTES)];
                    let data = if opened.raw && self.ipv4 {
                        after_ip_header(data)
                    } else {
                        Some(data)
                    };
                    let incoming = data.zip(address(&from)).and_then(|(data, from)| {
                        match self.protocol {
                            Protocol::Ping => {
                                let id = opened.raw.then(|| self.ping_id());
                                icmp_packet::reply(data, from, id)
                            }
                            Protocol::Sctp => sctp_packet::reply(data, from),
                        }
                    });
                    if let Some(incoming) = incoming {
                        self.deliver(&incoming);
                    }
                }
                Ok((_, None)) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return true,
                // An ICMP error shows here once and is in its queue as well.
                Err(_) => self.drain_errors(opened),
            }
        }
        false
    }

    /// Read ICMP errors: each comes with the beginning of the packet that caused it.
    fn drain_errors(&self, opened: &Opened) {
        let fd = opened.socket.as_raw_fd();
        let mut packet = [0; PACKET_BYTES];
        let mut control =
            nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, [u64; 8]);
        for _ in 0..PACKETS_AT_ONCE {
            let mut parts = [io::IoSliceMut::new(&mut packet)];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let Ok(message) =
                recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut control), flags)
            else {
                return;
            };
            let error = message.cmsgs().ok().and_then(|mut all| {
                all.find_map(|control| match control {
                    ControlMessageOwned::Ipv4RecvErr(error, _)
                    | ControlMessageOwned::Ipv6RecvErr(error, _) => Some(error.ee_errno),
                    _ => None,
                })
            });
            let code = error.and_then(|code| i32::try_from(code).ok());
            let to = message.address.as_ref().and_then(address);
            let length = message.bytes;
            let Some((to, code)) = to.zip(code) else {
                continue;
            };
            let data = &packet[..length.min(PACKET_BYTES)];
            let number = match self.protocol {
                Protocol::Ping => icmp_packet::number(data),
                Protocol::Sctp => sctp_packet::number_sent(data),
            };
            if let Some(number) = number {
                self.deliver(&Incoming {
                    id: (to, number),
                    tag: None,
                    answer: Answer::Icmp(code),
                });
            }
        }
    }
}

/// Start the task that reads a socket. It ends with the runtime; another begins then.
fn read(shared: &Arc<RawSocket>, opened: &Opened) -> io::Result<Weak<()>> {
    // Whatever the socket is: only its readiness is asked for.
    let socket = UdpSocket::from_std(opened.socket.try_clone()?.into())?;
    let alive = Arc::new(());
    let alive_too = Arc::downgrade(&alive);
    let (shared, opened) = (Arc::downgrade(shared), opened.clone());
    tokio::spawn(async move {
        let interest = Interest::READABLE | Interest::ERROR;
        while let Ok(ready) = socket.ready(interest).await {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            // Let tokio know what is exhausted, one direction at a time.
            let none = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
            if ready.is_error() {
                let _ = socket.try_io(Interest::ERROR, || {
                    shared.drain_errors(&opened);
                    none()
                });
            }
            let _ = socket.try_io(Interest::READABLE, || {
                if shared.drain(&opened) {
                    return none();
                }
                Ok(())
            });
            drop(shared);
            tokio::task::yield_now().await;
        }
        drop(alive);
    });
    Ok(alive_too)
}

/// The place where an answer comes; gone when it is dropped.
pub(super) struct Ticket {
    socket: Arc<RawSocket>,
    opened: Opened,
    pub(super) id: Id,
    pub(super) tag: u32,
}

impl Ticket {
    /// Send a request, again after a while as long as nothing comes, and return the
    /// answer. An error of ICMP is a failure. `sent` says what each sending was.
    pub(super) async fn exchange(
        &self,
        mark: Option<NonZeroU32>,
        packet: &[u8],
        progress: &mut Progress,
        sent: impl Fn() -> String,
    ) -> Result<Answer, Failure> {
        loop {
            self.send(mark, packet)?;
            progress.note(&sent);
            match timeout(RESEND_AFTER, self.answer()).await {
                Ok(Answer::Icmp(code)) => {
                    let error = io::Error::from_raw_os_error(code);
                    return Err(Failure::of_datagram(error));
                }
                Ok(answer) => return Ok(answer),
                Err(_) => {}
            }
        }
    }

    /// Send a packet with this mark.
    pub(super) fn send(
        &self,
        mark: Option<NonZeroU32>,
        packet: &[u8],
    ) -> Result<(), Failure> {
        let to = SocketAddr::new(self.id.0, 0).into();
        let socket = &self.opened.socket;
        // Nobody else may change the mark before the packet is out.
        let mut state = self.socket.lock();
        let mark = mark.map_or(0, NonZeroU32::get);
        if state.mark != mark {
            socket.set_mark(mark).map_err(Failure::Local)?;
            state.mark = mark;
        }
        // An error may be that of another probe, which the reader gets as well.
        let sent = socket.send_to(packet, &to);
        sent.or_else(|_| socket.send_to(packet, &to))
            .map(drop)
            .map_err(Failure::of_datagram)
    }

    /// Wait for the answer.
    async fn answer(&self) -> Answer {
        poll_fn(|context| {
            let mut state = self.socket.lock();
            let Some(waiting) = state.waiting.get_mut(&self.id) else {
                return Poll::Pending;
            };
            if let Some(answer) = waiting.answer {
                return Poll::Ready(answer);
            }
            waiting.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.socket.lock().waiting.remove(&self.id);
    }
}

fn address(from: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = from.as_sockaddr_in().map(|a| a.ip().into());
    v4.or_else(|| from.as_sockaddr_in6().map(|a| a.ip().into()))
}

/// A raw IPv4 socket gives the IP header as well (RFC 791, section 3.1).
fn after_ip_header(packet: &[u8]) -> Option<&[u8]> {
    let length = usize::from(packet.first()? & 0xf) * 4;
    packet.get(length..)
}
