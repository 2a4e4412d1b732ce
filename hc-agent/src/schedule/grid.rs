// SPDX-License-Identifier: Apache-2.0
//! When each check is probed next, in milliseconds since the engine started.
//!
//! A hash of its key gives every check its own place in its interval, so that neither a
//! start nor a reload causes a burst of probes.

use std::time::Duration;

use crate::key::Key;

/// Limit of first probes per second: a few checks have their first result at once, very
/// many are spread over their interval. Many checks may share a few targets with short
/// queues.
const FIRST_PROBES_PER_S: u64 = 2000;
/// Time until a probe whose outcome was discarded is repeated.
const DISCARD_RETRY_MS: u64 = 200;
/// Stretch, in thousandths, of intervals without a change.
pub const NO_STRETCH: u32 = 1000;

/// The finalizer of splitmix64, which spreads similar keys.
fn mix(key: Key) -> u64 {
    let mut x = key.get();
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A place within a span, which depends only on the key.
fn place(key: Key, span: u64) -> u64 {
    let place = (u128::from(span) * u128::from(mix(key))) >> 64;
    u64::try_from(place).unwrap_or(u64::MAX)
}

/// The thread that probes a check. It is independent of [`place`], so that the load of
/// every moment is divided evenly.
pub fn thread(key: Key, threads: usize) -> usize {
    let low = mix(key) & 0xffff_ffff;
    usize::try_from((low * threads as u64) >> 32).unwrap_or(0)
}

/// Milliseconds of a duration.
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The time over which `count` simultaneously due probes are spread.
fn spread_ms(delay_ms: u64, count: usize) -> u64 {
    delay_ms.min(count as u64 * 1000 / FIRST_PROBES_PER_S)
}

/// When one of `count` checks is first probed, or probed again after a postponement.
pub fn first(key: Key, delay_ms: u64, count: usize, now_ms: u64) -> u64 {
    now_ms + place(key, spread_ms(delay_ms, count))
}

/// When a probe with a discarded outcome is repeated, as one of up to `count`.
pub fn retry(key: Key, delay_ms: u64, count: usize, now_ms: u64) -> u64 {
    first(
        key,
        delay_ms,
        count,
        now_ms + DISCARD_RETRY_MS.min(delay_ms),
    )
}

/// Time between two probes: the delay, or a shorter one while the state is in doubt,
/// stretched (in thousandths) if the node cannot keep up.
pub fn interval_ms(delay_ms: u64, fast_ms: Option<u64>, stretch_permille: u32) -> u64 {
    let wanted = fast_ms.map_or(delay_ms, |fast| fast.min(delay_ms));
    let stretched = u128::from(wanted) * u128::from(stretch_permille.max(NO_STRETCH))
        / u128::from(NO_STRETCH);
    u64::try_from(stretched).unwrap_or(u64::MAX).max(1)
}

/// When to start the next probe after one that starts now: at the next point of the
/// grid `place + n × interval` that is at least half an interval away. After a punctual
/// probe this is one interval later.
pub fn next(key: Key, interval_ms: u64, now_ms: u64) -> u64 {
    let start = place(key, interval_ms);
    let earliest = now_ms + interval_ms / 2;
    let steps = earliest.saturating_sub(start).div_ceil(interval_ms.max(1));
    start.saturating_add(steps.saturating_mul(interval_ms))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(number: u64) -> Key {
        Key::new(number).unwrap()
    }

    #[test]
    fn first_probes_are_spread_evenly_over_what_their_number_needs() {
        let mut tenths = [0; 10];
        for i in 1..=10_000 {
            tenths[usize::try_from(first(key(i), 9000, 10_000, 0) / 500).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|n| (800..1200).contains(n)), "{tenths:?}");
        // A few are probed at once, very many within their interval.
        assert!((1..=10).all(|i| first(key(i), 5000, 10, 7) <= 7 + 5));
        let last = (1..=10_000).map(|i| first(key(i), 5000, 140_000, 0)).max();
        assert!((4900..5000).contains(&last.unwrap()), "{last:?}");
    }

    #[test]
    fn threads_share_every_moment() {
        let mut shares = [[0; 10]; 3];
        for i in 1..=30_000 {
            let tenth = usize::try_from(place(key(i), 10)).unwrap();
            shares[thread(key(i), 3)][tenth] += 1;
        }
        for share in shares.as_flattened() {
            assert!((850..1150).contains(share), "{shares:?}");
        }
    }

    #[test]
    fn an_interval_is_the_shorter_of_delay_and_fast_and_then_stretched() {
        assert_eq!(interval_ms(5000, None, NO_STRETCH), 5000);
        assert_eq!(interval_ms(5000, Some(1000), NO_STRETCH), 1000);
        assert_eq!(
            interval_ms(1000, Some(5000), NO_STRETCH),
            1000,
            "bounded by delay"
        );
        assert_eq!(interval_ms(5000, None, 1500), 7500);
        assert_eq!(interval_ms(5000, None, 0), 5000);
        assert_eq!(interval_ms(u64::MAX, None, 4000), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_probe_on_time_is_followed_after_one_interval(
            number in 1..=u64::MAX,
            interval in 1000u64..100_000_000,
            late_permille in 0u64..450,
            since in 0u64..10_000_000_000,
        ) {
            let start = next(key(number), interval, since);
            let now = start + interval * late_permille / 1000;
            prop_assert_eq!(next(key(number), interval, now), start + interval);
        }

        #[test]
        fn the_gap_is_between_a_half_and_one_and_a_half(
            number in 1..=u64::MAX,
            interval in 2u64..=2_147_483_647_000,
            now in 0u64..4_000_000_000_000,
        ) {
            let gap = next(key(number), interval, now) - now;
            prop_assert!(gap >= interval / 2 && gap <= interval * 3 / 2 + 1);
        }
    }
}
