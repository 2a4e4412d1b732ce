// SPDX-License-Identifier: Apache-2.0
//! Sockets shared by many probes, and the delivery of answers. With a raw socket for
//! each probe, every socket would receive a copy of all packets.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use nix::libc;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::failure::Failure;
use super::incoming::{Answer, Id, Incoming, low};
use super::open_socket::{OpenSocket, Protocol};
use super::progress::Progress;
use super::source_address::SourceAddress;

/// Numbers tried for a probe before giving up.
const TRIES: u32 = 256;
/// Time until a request is retransmitted, as in TCP and SCTP (RFC 9260, section 16:
/// RTO.Initial).
const RESEND_AFTER: Duration = Duration::from_secs(1);

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
    /// The current mark of the socket, 0 for none.
    mark: u32,
    /// Alive while a task reads the socket.
    reader: Weak<()>,
}

/// A socket and the probes that use it.
#[derive(Debug)]
pub(super) struct RawSocket {
    protocol: Protocol,
    pub(super) ipv4: bool,
    seed: RandomState,
    socket: OnceLock<Result<OpenSocket, i32>>,
    state: Mutex<State>,
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

    /// Open the socket unless it is open; an error if it cannot be used.
    pub(super) fn ensure_open(&self, source: &SourceAddress) -> io::Result<()> {
        self.opened(source).map(drop)
    }

    fn opened(&self, source: &SourceAddress) -> io::Result<&OpenSocket> {
        let code = |e: io::Error| e.raw_os_error().unwrap_or(libc::EIO);
        self.socket
            .get_or_init(|| {
                OpenSocket::open(self.protocol, self.ipv4, self.ping_id(), source)
                    .map_err(code)
            })
            .as_ref()
            .map_err(|code| io::Error::from_raw_os_error(*code))
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

    /// Register a probe for its answer. `id` turns a count into the number in packets.
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
            // Never zero, which has a special meaning in SCTP.
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
}

/// Start the task that reads a socket, until its runtime ends.
fn read(shared: &Arc<RawSocket>, opened: &OpenSocket) -> io::Result<Weak<()>> {
    // The type does not matter: tokio is only asked for readiness.
    let socket = UdpSocket::from_std(opened.try_clone()?.into())?;
    let alive = Arc::new(());
    let alive_too = Arc::downgrade(&alive);
    let (shared, opened) = (Arc::downgrade(shared), opened.clone());
    tokio::spawn(async move {
        let interest = Interest::READABLE | Interest::ERROR;
        while let Ok(ready) = socket.ready(interest).await {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            // Clear tokio's readiness, one direction at a time.
            let none = || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into());
            if ready.is_error() {
                let _ = socket.try_io(Interest::ERROR, || {
                    opened.drain_errors(|incoming| shared.deliver(incoming));
                    none()
                });
            }
            let _ = socket.try_io(Interest::READABLE, || {
                if opened.drain(|incoming| shared.deliver(incoming)) {
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

/// Registration of a probe for its answer, ended by dropping it.
pub(super) struct Ticket {
    socket: Arc<RawSocket>,
    opened: OpenSocket,
    pub(super) id: Id,
    pub(super) tag: u32,
}

impl Ticket {
    /// Send a request, retransmit it while no answer comes, and return the answer. An
    /// ICMP error is a failure. `sent` describes the packet for the steps.
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
        // Hold the lock until the packet is sent, so that its mark stays.
        let mut state = self.socket.lock();
        let mark = mark.map_or(0, NonZeroU32::get);
        if state.mark != mark {
            self.opened.set_mark(mark).map_err(Failure::Local)?;
            state.mark = mark;
        }
        // An error may belong to another probe; the reader receives it as well.
        let sent = self.opened.send(self.id.0, packet);
        sent.or_else(|_| self.opened.send(self.id.0, packet))
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
