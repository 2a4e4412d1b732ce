// SPDX-License-Identifier: Apache-2.0
//! Numbers that a thread counts for itself and gives away once in a while: a shared
//! counter for each probe would cost more than the rest of its bookkeeping.

use std::time::Duration;

use crate::queue::format::Reason;

/// Buckets of a [`Delays`]: four for each power of two, up to 2^32 microseconds.
const BUCKETS: usize = 128;

/// How often delays of which magnitude were seen, within 19 percent.
#[derive(Clone, Debug)]
pub struct Delays {
    buckets: Box<[u64; BUCKETS]>,
    most: u32,
    sum: u64,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            buckets: Box::new([0; BUCKETS]),
            most: 0,
            sum: 0,
        }
    }
}

impl Delays {
    /// Count a delay in microseconds.
    pub fn count(&mut self, us: u32) {
        self.buckets[bucket(us)] += 1;
        self.most = self.most.max(us);
        self.sum += u64::from(us);
    }

    /// Add all of others.
    pub fn add(&mut self, other: &Self) {
        for (mine, its) in self.buckets.iter_mut().zip(&*other.buckets) {
            *mine += its;
        }
        self.most = self.most.max(other.most);
        self.sum += other.sum;
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// All together.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum)
    }

    /// The longest.
    pub fn most(&self) -> Duration {
        Duration::from_micros(self.most.into())
    }

    /// An upper bound of the delay that a share of all, in thousandths, stays below.
    pub fn quantile(&self, permille: u64) -> Duration {
        let wanted = (self.total() * permille).div_ceil(1000).max(1);
        let mut sum = 0;
        for (number, count) in self.buckets.iter().enumerate() {
            sum += count;
            if sum >= wanted {
                return Duration::from_micros(limit(number).min(self.most.into()));
            }
        }
        self.most()
    }

    /// How many are at most as long as this, counting whole buckets only.
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
fn limit(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (power, quarter) = (bucket / 4 + 1, bucket as u64 % 4);
    ((5 + quarter) << (power - 2)) - 1
}

/// What a thread counts.
#[derive(Clone, Default)]
pub struct Tally {
    /// Probes by kind and reason.
    pub probes: Vec<(&'static str, Reason, u64)>,
    /// Failures that count for nothing as this node was late.
    pub void_late: u64,
    /// Failures that count for nothing as this node was short of something.
    pub void_local: u64,
    /// Probes put off as the thread was far too late.
    pub put_off: u64,
    /// Probes started.
    pub started: u64,
    /// Lateness of starts.
    pub late: Delays,
    /// Least lateness of a start, in microseconds.
    pub least_late: Option<u32>,
    /// Most probes at a time.
    pub most_in_flight: usize,
}

impl Tally {
    /// Count a probe that has ended.
    pub fn probed(&mut self, kind: &'static str, reason: Reason) {
        let same = |probe: &&mut (&'static str, Reason, u64)| {
            std::ptr::eq(probe.0, kind) && probe.1 == reason
        };
        match self.probes.iter_mut().find(same) {
            Some(probe) => probe.2 += 1,
            None => self.probes.push((kind, reason, 1)),
        }
    }

    /// Count a start.
    pub fn start(&mut self, late: u32) {
        self.started += 1;
        self.late.count(late);
        self.least_late = Some(self.least_late.map_or(late, |least| least.min(late)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_are_near(mut delays in prop::collection::vec(any::<u32>(), 1..300), permille in 0u64..=1000) {
            let mut counted = Delays::default();
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
        fn buckets_fit_together(us: u32) {
            prop_assert!(u64::from(us) <= limit(bucket(us)));
            prop_assert!(bucket(us) == 0 || u64::from(us) > limit(bucket(us) - 1));
            prop_assert!(bucket(us) < BUCKETS);
        }
    }
}
