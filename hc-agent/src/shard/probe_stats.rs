// SPDX-License-Identifier: Apache-2.0
//! Counters that a thread keeps for itself and hands over periodically: updating shared
//! counters for each probe would cost more than the rest of its bookkeeping.

use std::time::Duration;

use crate::reason::Reason;

/// Buckets of a [`DelayHistogram`]: four for each power of two, up to 2^32 microseconds.
const BUCKETS: usize = 128;

/// A histogram of delays with a resolution of 19 percent.
#[derive(Clone, Debug)]
pub struct DelayHistogram {
    buckets: Box<[u64; BUCKETS]>,
    max_us: u32,
    sum_us: u64,
}

impl Default for DelayHistogram {
    fn default() -> Self {
        Self {
            buckets: Box::new([0; BUCKETS]),
            max_us: 0,
            sum_us: 0,
        }
    }
}

impl DelayHistogram {
    /// Count a delay in microseconds.
    pub fn count(&mut self, us: u32) {
        self.buckets[bucket(us)] += 1;
        self.max_us = self.max_us.max(us);
        self.sum_us += u64::from(us);
    }

    /// Add the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (mine, its) in self.buckets.iter_mut().zip(&*other.buckets) {
            *mine += its;
        }
        self.max_us = self.max_us.max(other.max_us);
        self.sum_us += other.sum_us;
    }

    /// Number of delays.
    pub fn total(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Sum of all delays.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us)
    }

    /// The longest delay.
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.max_us.into())
    }

    /// An upper bound of a quantile, given in thousandths.
    pub fn quantile(&self, permille: u64) -> Duration {
        let wanted = (self.total() * permille).div_ceil(1000).max(1);
        let mut sum = 0;
        for (number, count) in self.buckets.iter().enumerate() {
            sum += count;
            if sum >= wanted {
                return Duration::from_micros(
                    upper_bound_us(number).min(self.max_us.into()),
                );
            }
        }
        self.max()
    }

    /// Number of delays up to this duration, counting only whole buckets.
    pub fn within(&self, duration: Duration) -> u64 {
        let us = u32::try_from(duration.as_micros()).unwrap_or(u32::MAX);
        self.buckets[..=bucket(us)].iter().sum()
    }
}

fn bucket(us: u32) -> usize {
    if us < 4 {
        return us as usize;
    }
    let power = us.ilog2();
    let quarter = (us >> (power - 2)) & 3;
    (4 * (power - 1) + quarter) as usize
}

/// The longest delay of a bucket.
fn upper_bound_us(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (power, quarter) = (bucket / 4 + 1, bucket as u64 % 4);
    ((5 + quarter) << (power - 2)) - 1
}

/// The counters of a thread.
#[derive(Clone, Default)]
pub struct ProbeStats {
    /// Probes by kind and reason.
    pub probes: Vec<(&'static str, Reason, u64)>,
    /// Failures discarded because this node was late.
    pub discarded_delay: u64,
    /// Failures discarded because a resource of this node had run out.
    pub discarded_shortage: u64,
    /// Outcomes discarded because no uplink worked.
    pub discarded_uplink: u64,
    /// Silences discarded because the host may have suppressed an ICMP error.
    pub discarded_silence: u64,
    /// Probes put off because the thread was far too late.
    pub put_off: u64,
    /// Probes started.
    pub started: u64,
    /// Lateness of starts.
    pub lateness: DelayHistogram,
    /// Least lateness of a start.
    pub least_late_us: Option<u32>,
    /// Peak number of concurrent probes.
    pub max_in_flight: usize,
}

impl ProbeStats {
    /// Count a finished probe.
    pub fn count_outcome(&mut self, kind: &'static str, reason: Reason) {
        let same = |probe: &&mut (&'static str, Reason, u64)| {
            std::ptr::eq(probe.0, kind) && probe.1 == reason
        };
        match self.probes.iter_mut().find(same) {
            Some(probe) => probe.2 += 1,
            None => self.probes.push((kind, reason, 1)),
        }
    }

    /// Count a start.
    pub fn count_start(&mut self, late_us: u32) {
        self.started += 1;
        self.lateness.count(late_us);
        self.least_late_us = Some(
            self.least_late_us
                .map_or(late_us, |least| least.min(late_us)),
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_are_at_most_a_bucket_above_the_exact_ones(mut delays in prop::collection::vec(any::<u32>(), 1..300), permille in 0u64..=1000) {
            let mut counted = DelayHistogram::default();
            for us in &delays {
                counted.count(*us);
            }
            delays.sort_unstable();
            let wanted = (delays.len() as u64 * permille).div_ceil(1000).max(1) - 1;
            let exact = f64::from(delays[usize::try_from(wanted).unwrap()]);
            let found = counted.quantile(permille).as_secs_f64() * 1e6;
            prop_assert!(found >= exact - 0.5 && found <= exact * 1.26 + 0.5, "{found} {exact}");
            prop_assert_eq!(counted.total(), delays.len() as u64);
        }

        #[test]
        fn each_delay_has_one_bucket_that_bounds_it(us: u32) {
            prop_assert!(u64::from(us) <= upper_bound_us(bucket(us)));
            prop_assert!(bucket(us) == 0 || u64::from(us) > upper_bound_us(bucket(us) - 1));
            prop_assert!(bucket(us) < BUCKETS);
        }
    }
}
