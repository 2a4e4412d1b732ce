// SPDX-License-Identifier: Apache-2.0
//! Tracks hosts that have sent us ICMP errors lately, and may suppress further ones.
//!
//! Hosts and routers limit the ICMP errors that they send to one address (RFC 1812,
//! section 4.3.2.8; RFC 4443, section 2.4). Linux has a token bucket of six for each
//! address and adds one token a second. Silence is thus inconclusive while a sender's
//! bucket may be empty, and our own probes of other ports empty it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Longest time until a sender gets one more token (Linux: `icmp_ratelimit`).
const REFILL_MAX: Duration = Duration::from_secs(1);
/// Errors that a sender may send at once (Linux: `XRLIM_BURST_FACTOR`).
const BURST: u32 = 6;
/// Errors remembered for each sender.
const REMEMBERED: u32 = 16;
/// Time without errors after which a sender and its targets are forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(3600);
/// Number of targets above which old entries are forgotten.
const FORGET_ABOVE: usize = 1024;

/// One error.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// When the datagram that caused it was sent.
    sent: Instant,
    heard: Instant,
}

/// The last errors of one sender, the newest last.
#[derive(Debug, Default)]
struct Sender(VecDeque<Told>);

impl Sender {
    /// Upper bound of the time until the bucket gets one more token. It is shorter if
    /// the sender has shown a higher rate, or has no limit.
    fn refill(&self) -> Duration {
        let span = match (self.0.front(), self.0.back()) {
            (Some(first), Some(last)) if self.0.len() == REMEMBERED as usize => {
                last.heard - first.heard
            }
            _ => return REFILL_MAX,
        };
        REFILL_MAX.min(span / (REMEMBERED - BURST - 1))
    }

    /// Whether the bucket had a token for a datagram sent at this time.
    fn was_ready(&self, sent: Instant) -> bool {
        let refill = self.refill();
        let before = |told: &&Told| told.sent <= sent;
        let oldest = self.0.front().filter(|told| told.sent > sent);
        if oldest.is_some() && self.0.len() == REMEMBERED as usize {
            // Earlier errors are already forgotten.
            return false;
        }
        self.0
            .iter()
            .filter(before)
            .all(|told| told.heard + refill <= sent)
    }
}

#[derive(Debug, Default)]
struct Known {
    /// The sender of errors about a target: the target, or a router on the path.
    sender_of: HashMap<IpAddr, IpAddr>,
    senders: HashMap<IpAddr, Sender>,
}

/// ICMP errors received by all probes of a process.
#[derive(Debug, Default)]
pub(super) struct ErrorLimits {
    known: Mutex<Known>,
    seed: RandomState,
}

impl ErrorLimits {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Record an error about a datagram sent to `target` at `sent`.
    pub(super) fn heard(&self, target: IpAddr, sender: IpAddr, sent: Instant) {
        let heard = Instant::now();
        let mut known = self.lock();
        if known.sender_of.len() > FORGET_ABOVE {
            known.forget(heard);
        }
        known.sender_of.insert(target, sender);
        let errors = &mut known.senders.entry(sender).or_default().0;
        if errors.len() == REMEMBERED as usize {
            errors.pop_front();
        }
        errors.push_back(Told { sent, heard });
    }

    /// Whether `target` could send an error about a datagram sent at `sent`. Call it
    /// only once such an error would have arrived.
    pub(super) fn would_have_told(&self, target: IpAddr, sent: Instant) -> bool {
        let known = self.lock();
        known
            .sender_of(target)
            .is_none_or(|sender| sender.was_ready(sent))
    }

    /// When the sender of errors about a target can send the next one.
    pub(super) fn ready_at(&self, target: IpAddr) -> Option<Instant> {
        let known = self.lock();
        let sender = known.sender_of(target)?;
        let last = sender.0.back()?;
        Some(last.heard + sender.refill())
    }

    /// A random part of a duration.
    pub(super) fn some_of(&self, time: Duration) -> Duration {
        let random = self.seed.hash_one(Instant::now()) >> 32;
        let part = (u128::from(random) * time.as_nanos()) >> 32;
        Duration::from_nanos(u64::try_from(part).unwrap_or(0))
    }
}

impl Known {
    fn sender_of(&self, target: IpAddr) -> Option<&Sender> {
        self.senders.get(self.sender_of.get(&target)?)
    }

    /// Forget senders without recent errors, as targets come and go.
    fn forget(&mut self, now: Instant) {
        let lately = |sender: &Sender| {
            let last = sender.0.back();
            last.is_some_and(|told| now - told.heard < FORGET_AFTER)
        };
        self.senders.retain(|_, sender| lately(sender));
        let senders = &self.senders;
        self.sender_of
            .retain(|_, sender| senders.contains_key(sender));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 2));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 3));
    const ROUTER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 9, 1));

    async fn wait(ms: u64) {
        advance(Duration::from_millis(ms)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn silence_of_a_host_that_says_nothing_else_counts() {
        let limits = ErrorLimits::default();
        assert!(limits.would_have_told(HOST, Instant::now()));
        assert_eq!(limits.ready_at(HOST), None);
        limits.heard(OTHER, OTHER, Instant::now());
        assert!(limits.would_have_told(HOST, Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_again_when_another_error_can_be_sent() {
        let limits = ErrorLimits::default();
        let sent = Instant::now();
        wait(2).await;
        limits.heard(HOST, HOST, sent);
        // A datagram sent before the error was received is inconclusive, too.
        assert!(!limits.would_have_told(HOST, sent + Duration::from_millis(1)));
        wait(999).await;
        assert!(!limits.would_have_told(HOST, Instant::now()));
        assert_eq!(
            limits.ready_at(HOST),
            Some(sent + Duration::from_millis(1002))
        );
        wait(1).await;
        let free = Instant::now();
        assert!(limits.would_have_told(HOST, free));
        // Independently of datagrams sent later.
        wait(50).await;
        limits.heard(HOST, HOST, Instant::now());
        assert!(limits.would_have_told(HOST, free));
    }

    #[tokio::test(start_paused = true)]
    async fn a_router_limits_what_it_says_of_all_hosts_behind_it() {
        let limits = ErrorLimits::default();
        limits.heard(HOST, ROUTER, Instant::now());
        wait(5000).await;
        limits.heard(OTHER, ROUTER, Instant::now());
        wait(500).await;
        assert!(!limits.would_have_told(HOST, Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_a_limited_host_is_no_higher_limit() {
        let limits = ErrorLimits::default();
        for gap in [0; 6].into_iter().chain([1000; 30]) {
            wait(gap).await;
            limits.heard(HOST, HOST, Instant::now());
        }
        wait(999).await;
        assert!(!limits.would_have_told(HOST, Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_without_a_limit_is_believed_soon() {
        let limits = ErrorLimits::default();
        let mut first = None;
        for _ in 0..30 {
            wait(10).await;
            first.get_or_insert(Instant::now());
            limits.heard(HOST, HOST, Instant::now());
        }
        wait(17).await;
        assert!(limits.would_have_told(HOST, Instant::now()));
        // Forgotten errors prove nothing.
        assert!(!limits.would_have_told(HOST, first.unwrap()));
    }

    #[tokio::test(start_paused = true)]
    async fn hosts_that_are_silent_for_long_are_forgotten() {
        let limits = ErrorLimits::default();
        let host = |number: u32| IpAddr::V4(number.into());
        for number in 0..2000 {
            limits.heard(host(number), host(number), Instant::now());
        }
        advance(FORGET_AFTER).await;
        limits.heard(HOST, HOST, Instant::now());
        let known = limits.lock();
        assert_eq!((known.senders.len(), known.sender_of.len()), (1, 1));
    }
}
