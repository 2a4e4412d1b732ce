// SPDX-License-Identifier: Apache-2.0
//! Measures how late this process itself is.
//!
//! A process that was stopped, starved or busy sees answers too late and would report
//! healthy targets as down. A ticker measures how late it wakes up, and each probe
//! determines how much of that delay fell into its own duration. Suspension of the
//! whole machine counts as well, although the monotonic clock excludes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, sleep_until};

/// Time between two ticks.
const TICK: Duration = Duration::from_millis(50);
/// Normal lateness of a tick: timers have a resolution of a millisecond.
const SLACK: Duration = Duration::from_millis(5);

struct Counters {
    base: Instant,
    /// Total suspension of the machine at that time.
    suspended: Duration,
    /// Sum of all lateness.
    total_ns: AtomicU64,
    /// When the next tick is due, since `base`.
    expected_ns: AtomicU64,
}

/// The lateness of a thread, shared by its probes.
#[derive(Clone)]
pub struct Lateness(Arc<Counters>);

impl Lateness {
    /// Start at zero. [`Self::run`] must be spawned.
    pub fn new() -> Self {
        Self(Arc::new(Counters {
            base: Instant::now(),
            suspended: suspended(),
            total_ns: AtomicU64::new(0),
            expected_ns: AtomicU64::new(nanoseconds(TICK)),
        }))
    }

    /// Tick forever.
    pub async fn run(self) {
        loop {
            let at = Instant::now() + TICK;
            self.expect(at);
            sleep_until(at).await;
            self.tick(Instant::now());
        }
    }

    fn expect(&self, at: Instant) {
        let at = at.saturating_duration_since(self.0.base);
        self.0.expected_ns.store(nanoseconds(at), Ordering::Relaxed);
    }

    fn tick(&self, now: Instant) {
        let late = self.running(now);
        self.0
            .total_ns
            .fetch_add(nanoseconds(late), Ordering::Relaxed);
        self.expect(now + TICK);
    }

    /// Lateness of the pending tick so far.
    fn running(&self, now: Instant) -> Duration {
        let expected = Duration::from_nanos(self.0.expected_ns.load(Ordering::Relaxed));
        now.saturating_duration_since(self.0.base)
            .saturating_sub(expected)
            .saturating_sub(SLACK)
    }

    /// Total lateness until now; callers subtract two values.
    pub fn total(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.0.total_ns.load(Ordering::Relaxed))
            + self.running(now)
            + newly_suspended(suspended(), self.0.suspended)
    }
}

impl Default for Lateness {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether own lateness can explain that a probe with this timeout saw no answer.
pub fn explains(late: Duration, timeout: Duration) -> bool {
    late > (timeout / 20).max(Duration::from_millis(50))
}

/// Total suspension of the machine since boot, which `CLOCK_BOOTTIME` includes and
/// `CLOCK_MONOTONIC` does not.
fn suspended() -> Duration {
    let read = |clock| {
        let time = clock_gettime(clock);
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or(0),
            u32::try_from(time.tv_nsec).unwrap_or(0),
        )
    };
    // In this order: a pause between the two reads must not look like a suspension.
    let all = read(ClockId::Boottime);
    all.saturating_sub(read(ClockId::Monotonic))
}

/// Suspension since `before`, less the error of reading two clocks one after the other.
fn newly_suspended(now: Duration, before: Duration) -> Duration {
    const GRAIN: Duration = Duration::from_millis(10);
    let new = now.saturating_sub(before);
    if new > GRAIN { new } else { Duration::ZERO }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_seen_before_and_after_its_tick() {
        let lateness = Lateness::new();
        let start = lateness.0.base;
        assert_eq!(lateness.total(start + TICK + SLACK), Duration::ZERO);

        let late = Duration::from_secs(2);
        let end = start + TICK + SLACK + late;
        assert_eq!(lateness.total(end), late);
        lateness.tick(end);
        assert_eq!(lateness.total(end), late);
        lateness.tick(end + TICK);
        assert_eq!(lateness.total(end + TICK), late);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_process_is_never_late() {
        let lateness = Lateness::new();
        tokio::spawn(lateness.clone().run());
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(lateness.total(Instant::now()), Duration::ZERO);
    }

    #[test]
    fn a_suspension_counts_and_noise_does_not() {
        let second = Duration::from_secs(1);
        assert_eq!(newly_suspended(3 * second, second), 2 * second);
        assert_eq!(newly_suspended(second, 3 * second), Duration::ZERO);
        assert_eq!(
            newly_suspended(second + second / 500, second),
            Duration::ZERO
        );
    }

    #[test]
    fn lateness_explains_above_fifty_ms_and_a_twentieth_of_the_timeout() {
        let second = Duration::from_secs(1);
        assert!(!explains(Duration::from_millis(50), second));
        assert!(explains(Duration::from_millis(51), second));
        assert!(!explains(Duration::from_millis(400), 10 * second));
    }
}
