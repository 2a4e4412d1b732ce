// SPDX-License-Identifier: Apache-2.0
//! When each check is probed next.
//!
//! Every check has its own place in its interval, given by a hash of its key, so that
//! neither a start nor a reload makes a herd.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::key::Key;

/// First probes are spread over this time, or the interval if that is shorter.
const FIRST_SPREAD: Duration = Duration::from_secs(1);

/// A place in a span of time that depends on the key alone.
fn place(key: Key, span: Duration) -> Duration {
    // The finalizer of splitmix64: keys that differ little land far apart.
    let mut x = key.get();
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    let span = span.as_nanos();
    let nanoseconds = (span * u128::from(x)) >> 64;
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// When a check is first probed.
pub fn first(key: Key, delay: Duration, now: Instant) -> Instant {
    now + place(key, delay.min(FIRST_SPREAD))
}

/// When a check is probed after a probe that starts now: at the next point of the grid
/// `origin + place + n × delay` that is at least half an interval away. A probe that is
/// on time starts at such a point, so the next is one interval later.
pub fn next(key: Key, delay: Duration, origin: Instant, now: Instant) -> Instant {
    let start = origin + place(key, delay);
    let earliest = now + delay / 2;
    let passed = earliest.saturating_duration_since(start).as_nanos();
    let steps = passed.div_ceil(delay.as_nanos().max(1));
    let ahead = steps.saturating_mul(delay.as_nanos());
    start + Duration::from_nanos(u64::try_from(ahead).unwrap_or(u64::MAX))
}

/// A queue of deadlines, at most one for each check.
#[derive(Default)]
pub struct Schedule {
    heap: BinaryHeap<Reverse<(Instant, u64, Key)>>,
    /// The one valid ticket of each check; others in the heap are void.
    tickets: HashMap<Key, u64>,
    last_ticket: u64,
}

impl Schedule {
    /// Set the deadline of a check, instead of an earlier one.
    pub fn arm(&mut self, key: Key, at: Instant) {
        self.last_ticket += 1;
        self.tickets.insert(key, self.last_ticket);
        self.heap.push(Reverse((at, self.last_ticket, key)));
        // Deadlines may be far away: void ones must not pile up until then.
        if self.heap.len() > 2 * self.tickets.len() + 1024 {
            let tickets = &self.tickets;
            self.heap
                .retain(|Reverse((_, ticket, key))| tickets.get(key) == Some(ticket));
        }
    }

    /// Forget the deadline of a check.
    pub fn disarm(&mut self, key: Key) {
        self.tickets.remove(&key);
    }

    /// The earliest deadline.
    pub fn earliest(&mut self) -> Option<Instant> {
        loop {
            let Reverse((at, ticket, key)) = self.heap.peek()?;
            if self.tickets.get(key) == Some(ticket) {
                return Some(*at);
            }
            self.heap.pop();
        }
    }

    /// Take a check whose deadline is over, with the deadline.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Key, Instant)> {
        if self.earliest()? > now {
            return None;
        }
        let Reverse((at, _, key)) = self.heap.pop()?;
        self.tickets.remove(&key);
        Some((key, at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(number: u64) -> Key {
        Key::new(number).unwrap()
    }

    #[test]
    fn deadlines_come_in_order_and_once() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.arm(key(1), now + 3 * SECOND);
        schedule.arm(key(2), now + 2 * SECOND);
        schedule.arm(key(3), now + SECOND);
        schedule.arm(key(1), now);
        schedule.disarm(key(3));

        assert_eq!(schedule.earliest(), Some(now));
        assert_eq!(schedule.pop_due(now), Some((key(1), now)));
        assert_eq!(schedule.pop_due(now), None);
        let late = now + 9 * SECOND;
        assert_eq!(schedule.pop_due(late), Some((key(2), now + 2 * SECOND)));
        assert_eq!(schedule.pop_due(late), None);
    }

    #[test]
    fn void_deadlines_do_not_pile_up() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        for i in 0..1_000_000 {
            schedule.arm(key(1 + i % 10), now + SECOND);
        }
        assert!(schedule.heap.len() <= 1044);
    }

    #[test]
    fn places_are_spread_evenly() {
        let now = Instant::now();
        let mut tenths = [0; 10];
        for i in 1..=10_000 {
            let ahead = first(key(i), 5 * SECOND, now) - now;
            tenths[usize::try_from(ahead.as_millis() / 100).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|n| (800..1200).contains(n)), "{tenths:?}");
    }

    proptest! {
        #[test]
        fn a_probe_on_time_is_followed_after_one_interval(
            number in 1..=u64::MAX,
            delay in 1u64..100_000,
            late_permille in 0u32..450,
            since in 0u64..10_000_000,
        ) {
            let delay = Duration::from_secs(delay);
            let origin = Instant::now();
            let start = next(key(number), delay, origin, origin + Duration::from_millis(since));
            let now = start + delay * late_permille / 1000;
            prop_assert_eq!(next(key(number), delay, origin, now), start + delay);
        }

        #[test]
        fn the_gap_is_between_a_half_and_one_and_a_half(
            number in 1..=u64::MAX,
            delay in 1u64..=2_147_483_647,
            since in 0u64..4_000_000_000,
        ) {
            let delay = Duration::from_secs(delay);
            let origin = Instant::now();
            let now = origin + Duration::from_secs(since);
            let gap = next(key(number), delay, origin, now) - now;
            prop_assert!(gap >= delay / 2 && gap <= delay * 3 / 2);
        }
    }
}
