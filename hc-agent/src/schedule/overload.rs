// SPDX-License-Identifier: Apache-2.0
//! If this node cannot keep up, all intervals are lengthened by one factor. A slow
//! checker is thus equally slow for all checks, and reports no state that it has not
//! observed.

use std::time::Duration;

use super::grid::NO_STRETCH;

/// Time that a sample covers.
pub const WINDOW: Duration = Duration::from_secs(1);
/// A node is behind if even the least late probe of a window starts later than this: a
/// burst delays some probes, lack of capacity delays all.
const STANDING: Duration = Duration::from_millis(100);
/// Below this, a node has spare capacity.
const EASE: Duration = Duration::from_millis(20);
/// Windows behind in a row that count as overload.
const BEHIND_WINDOWS: u32 = 2;
/// Windows in a row with spare capacity before intervals are shortened.
const EASE_WINDOWS: u32 = 5;
/// Target share of the capacity, in thousandths, when intervals are shortened.
const TARGET_PERMILLE: u64 = 850;
/// Longest stretch, in thousandths.
const MAX_STRETCH: u32 = 64 * NO_STRETCH;

/// Measurements of a window, of the most loaded thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Least lateness of a start; the age of the oldest due probe if none started.
    pub standing: Duration,
    /// Used share of the capacity, in thousandths: of time, or of concurrent probes.
    pub used_permille: u64,
    /// Probes that started.
    pub started: u64,
    /// Probes that should have started, with the current stretch.
    pub wanted: u64,
}

/// Change after a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Nothing.
    None,
    /// An episode of overload begins.
    Begin,
    /// Intervals have changed; the episode continues.
    Change,
    /// All intervals are back to normal.
    End,
}

/// The factor, and the history that decides about changes.
#[derive(Debug)]
pub struct Overload {
    stretch_permille: u32,
    behind: u32,
    ease: u32,
}

impl Overload {
    /// The state of a node that keeps up.
    pub const fn new() -> Self {
        Self {
            stretch_permille: NO_STRETCH,
            behind: 0,
            ease: 0,
        }
    }

    /// The factor on intervals, in thousandths.
    pub const fn stretch_permille(&self) -> u32 {
        self.stretch_permille
    }

    /// Process the measurements of a window.
    pub fn observe(&mut self, sample: Sample) -> Transition {
        if sample.standing > STANDING {
            self.ease = 0;
            self.behind += 1;
            if self.behind < BEHIND_WINDOWS {
                return Transition::None;
            }
            self.behind = 0;
            return self.set(longer(self.stretch_permille, sample));
        }
        self.behind = 0;
        if sample.standing > EASE {
            self.ease = 0;
            return Transition::None;
        }
        self.ease += 1;
        if self.stretch_permille == NO_STRETCH || self.ease < EASE_WINDOWS {
            return Transition::None;
        }
        let shorter = (self.stretch_permille * 9 / 10).max(NO_STRETCH);
        let expected =
            sample.used_permille * u64::from(self.stretch_permille) / u64::from(shorter);
        if expected > TARGET_PERMILLE {
            return Transition::None;
        }
        self.ease = 0;
        self.set(shorter)
    }

    fn set(&mut self, stretch: u32) -> Transition {
        let before = std::mem::replace(&mut self.stretch_permille, stretch);
        match (before, stretch) {
            (before, after) if before == after => Transition::None,
            (NO_STRETCH, _) => Transition::Begin,
            (_, NO_STRETCH) => Transition::End,
            _ => Transition::Change,
        }
    }
}

impl Default for Overload {
    fn default() -> Self {
        Self::new()
    }
}

/// The stretch at which demand equals the observed capacity, plus a little to work off
/// the backlog.
fn longer(stretch: u32, sample: Sample) -> u32 {
    let wanted = sample.wanted.saturating_mul(1100);
    let factor = (wanted / sample.started.max(1)).clamp(1100, 2000);
    let stretched = u64::from(stretch) * factor / 1000;
    u32::try_from(stretched)
        .unwrap_or(MAX_STRETCH)
        .min(MAX_STRETCH)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A node that can start `capacity` probes in a window, and its backlog.
    struct Node {
        capacity: u64,
        waiting: u64,
    }

    impl Node {
        fn window(&mut self, demand: u64, stretch: u32) -> Sample {
            let wanted = demand * 1000 / u64::from(stretch);
            let all = wanted + self.waiting;
            let started = all.min(self.capacity);
            self.waiting = all - started;
            // Probes later than an interval are put off, so the backlog is bounded.
            self.waiting = self.waiting.min(demand);
            Sample {
                standing: Duration::from_millis(
                    self.waiting * 1000 / self.capacity.max(1),
                ),
                used_permille: started * 1000 / self.capacity.max(1),
                started,
                wanted,
            }
        }
    }

    proptest! {
        #[test]
        fn settles_where_the_node_keeps_up_and_comes_back(
            capacity in 500u64..50_000,
            percent in 105u64..1500,
        ) {
            let demand = capacity * percent / 100;
            let mut node = Node { capacity, waiting: 0 };
            let mut overload = Overload::new();
            for _ in 0..120 {
                let sample = node.window(demand, overload.stretch_permille());
                overload.observe(sample);
            }
            let settled = overload.stretch_permille();
            let needed = u32::try_from(percent * 10).unwrap();
            prop_assert!(settled >= needed * 99 / 100, "{settled} for {needed}");
            prop_assert!(settled <= needed * 26 / 10, "{settled} for {needed}");
            let mut turns = 0;
            for _ in 0..600 {
                let sample = node.window(demand, overload.stretch_permille());
                turns += u32::from(overload.observe(sample) != Transition::None);
                prop_assert!(sample.standing <= STANDING);
            }
            prop_assert!(turns <= 15, "{turns} changes while nothing changes");
            // At half of the capacity, all intervals return to normal.
            for _ in 0..300 {
                let sample = node.window(capacity / 2, overload.stretch_permille());
                overload.observe(sample);
            }
            prop_assert_eq!(overload.stretch_permille(), NO_STRETCH);
        }

        #[test]
        fn stays_within_its_bounds(samples in prop::collection::vec(
            (0u64..5000, 0u64..2000, 0u64..100_000, 0u64..100_000), 0..200,
        )) {
            let mut overload = Overload::new();
            for (late, used_permille, started, wanted) in samples {
                let before = overload.stretch_permille();
                let standing = Duration::from_millis(late);
                let transition = overload.observe(Sample {
                    standing,
                    used_permille,
                    started,
                    wanted,
                });
                prop_assert!((NO_STRETCH..=MAX_STRETCH).contains(&overload.stretch_permille()));
                prop_assert_eq!(transition == Transition::None, before == overload.stretch_permille());
                prop_assert_eq!(transition == Transition::Begin, before == NO_STRETCH && before != overload.stretch_permille());
            }
        }
    }

    #[test]
    fn one_bad_window_is_no_overload() {
        let mut overload = Overload::new();
        let bad = Sample {
            standing: 10 * STANDING,
            used_permille: 1000,
            started: 1,
            wanted: 1000,
        };
        for _ in 0..10 {
            assert_eq!(overload.observe(bad), Transition::None);
            assert_eq!(overload.observe(Sample::default()), Transition::None);
        }
        overload.observe(bad);
        assert_eq!(overload.observe(bad), Transition::Begin);
        assert_eq!(overload.stretch_permille(), 2 * NO_STRETCH);
    }
}
