// SPDX-License-Identifier: Apache-2.0
//! A hierarchical timing wheel: deadlines of numbered items, in ticks.
//!
//! The cost of arming, disarming and taking a deadline does not depend on their number,
//! and nothing is allocated for it: the lists of a wheel are links between numbers. A
//! heap with a map needed three times the memory.

/// Bits of a tick per level.
const BITS: u32 = 6;
/// Lists per level; their occupancy fits in one word.
const LISTS: usize = 1 << BITS;
/// Levels; together they reach 2^36 ticks ahead, two years of milliseconds. Later
/// deadlines stay in the last level until they come into reach.
const LEVELS: usize = 6;
/// [`LEVELS`] in the type of bit counts.
const LEVEL_BITS: u32 = 6;
/// Distance from which deadlines are out of reach.
const REACH: u64 = 1 << (BITS * LEVEL_BITS);
/// The list of due numbers.
const DUE: usize = LISTS * LEVELS;
/// No number.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    deadline: u64,
    next: u32,
    previous: u32,
    /// The list it is in; `NONE` if not armed.
    list: u32,
}

const FREE: Node = Node {
    deadline: 0,
    next: NONE,
    previous: NONE,
    list: NONE,
};

#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List {
    first: NONE,
    last: NONE,
};

/// The wheel. Numbers should be dense: memory grows with the highest one.
pub struct Wheel {
    /// Every deadline up to this tick is in the list of due numbers.
    now: u64,
    nodes: Vec<Node>,
    lists: Box<[List]>,
    /// Bit n of a level: its list n is not empty.
    occupied: [u64; LEVELS],
    armed: usize,
}

impl Wheel {
    /// An empty wheel at a tick.
    pub fn new(now: u64) -> Self {
        Self {
            now,
            nodes: Vec::new(),
            lists: vec![EMPTY; DUE + 1].into_boxed_slice(),
            occupied: [0; LEVELS],
            armed: 0,
        }
    }

    /// Number of armed deadlines.
    pub fn len(&self) -> usize {
        self.armed
    }

    /// Whether no deadline is armed.
    pub fn is_empty(&self) -> bool {
        self.armed == 0
    }

    /// Set the deadline of a number, replacing its previous one.
    pub fn arm(&mut self, number: u32, deadline: u64) {
        self.disarm(number);
        let at = number as usize;
        if at >= self.nodes.len() {
            self.nodes.resize(at + 1, FREE);
        }
        self.nodes[at].deadline = deadline;
        self.armed += 1;
        self.link(number);
    }

    /// Remove the deadline of a number, if it has one.
    pub fn disarm(&mut self, number: u32) {
        let armed = self.nodes.get(number as usize);
        if armed.is_some_and(|node| node.list != NONE) {
            self.unlink(number);
            self.armed -= 1;
        }
    }

    /// Advance the time to a tick. Ignored if it is in the past.
    pub fn advance(&mut self, now: u64) {
        while let Some((tick, level, list)) = self.next_list() {
            if tick > now {
                break;
            }
            self.now = tick.max(self.now);
            self.spill(level, list);
        }
        self.now = self.now.max(now);
    }

    /// Take a due number with its deadline; the earliest list comes first.
    pub fn pop(&mut self) -> Option<(u32, u64)> {
        let number = self.lists[DUE].first;
        if number == NONE {
            return None;
        }
        self.unlink(number);
        self.armed -= 1;
        Some((number, self.nodes[number as usize].deadline))
    }

    /// The deadline of a number, if it has one.
    pub fn deadline(&self, number: u32) -> Option<u64> {
        let node = self.nodes.get(number as usize)?;
        (node.list != NONE).then_some(node.deadline)
    }

    /// The deadline of the number that [`Self::pop`] takes next.
    pub fn first_due(&self) -> Option<u64> {
        let first = self.nodes.get(self.lists[DUE].first as usize)?;
        Some(first.deadline)
    }

    /// When to advance next: never later than the earliest deadline.
    pub fn next_tick(&self) -> Option<u64> {
        if self.lists[DUE].first != NONE {
            return Some(self.now);
        }
        self.next_list().map(|(tick, ..)| tick.max(self.now))
    }

    /// The next list and its first tick. On equal ticks the highest level comes first,
    /// as its deadlines may be as early as those of lower levels.
    fn next_list(&self) -> Option<(u64, usize, usize)> {
        let mut best: Option<(u64, usize, usize)> = None;
        for (level, (occupied, shift)) in self
            .occupied
            .into_iter()
            .zip((0..).step_by(BITS as usize))
            .enumerate()
        {
            if occupied == 0 {
                continue;
            }
            let position = self.now >> shift;
            let current = list(position);
            // The current list of a level above the first was spilled when its time
            // came; anything in it is one round ahead.
            let from = if level == 0 { current } else { current + 1 };
            let ahead = occupied.rotate_right(from % 64).trailing_zeros();
            let steps = u64::from(ahead) + u64::from(from - current);
            let tick = (position + steps) << shift;
            if best.is_none_or(|(earliest, ..)| tick <= earliest) {
                best = Some((tick, level, list(position + steps) as usize));
            }
        }
        best
    }

    /// Move the contents of a list to the lists where they belong now.
    fn spill(&mut self, level: usize, list: usize) {
        let index = level * LISTS + list;
        let mut number = self.lists[index].first;
        self.lists[index] = EMPTY;
        self.occupied[level] &= !(1 << list);
        while number != NONE {
            let next = self.nodes[number as usize].next;
            self.link(number);
            number = next;
        }
    }

    /// The list for a deadline: on the highest level on which it differs from now.
    fn place(&self, deadline: u64) -> usize {
        if deadline <= self.now {
            return DUE;
        }
        let deadline = deadline.min(self.now + REACH - 1);
        // Beyond the end of the last level's round, use its list one round ahead.
        let level = ((deadline ^ self.now).ilog2() / BITS).min(LEVEL_BITS - 1);
        level as usize * LISTS + list(deadline >> (BITS * level)) as usize
    }

    fn link(&mut self, number: u32) {
        let place = self.place(self.nodes[number as usize].deadline);
        let last = std::mem::replace(&mut self.lists[place].last, number);
        match last {
            NONE => self.lists[place].first = number,
            last => self.nodes[last as usize].next = number,
        }
        let node = &mut self.nodes[number as usize];
        node.previous = last;
        node.next = NONE;
        node.list = u32::try_from(place).unwrap_or(NONE);
        if place != DUE {
            self.occupied[place / LISTS] |= 1 << (place % LISTS);
        }
    }

    fn unlink(&mut self, number: u32) {
        let Node {
            next,
            previous,
            list,
            ..
        } = self.nodes[number as usize];
        let place = list as usize;
        match previous {
            NONE => self.lists[place].first = next,
            previous => self.nodes[previous as usize].next = next,
        }
        match next {
            NONE => self.lists[place].last = previous,
            next => self.nodes[next as usize].previous = previous,
        }
        self.nodes[number as usize].list = NONE;
        if place != DUE && self.lists[place].first == NONE {
            self.occupied[place / LISTS] &= !(1 << (place % LISTS));
        }
    }
}

/// The list of a position within its level.
#[expect(clippy::cast_possible_truncation, reason = "six bits")]
const fn list(position: u64) -> u32 {
    (position % LISTS as u64) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Arm(u32, u64),
        Disarm(u32),
        Advance(u64),
        ToNext,
    }

    /// Distances of every magnitude, including the borders of levels.
    fn distance() -> impl Strategy<Value = u64> {
        (0u32..40, any::<u64>(), -2i64..=2).prop_map(|(bits, noise, near)| {
            let base = 1u64 << bits;
            (base + noise % base / 2).saturating_add_signed(near)
        })
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u32..40, distance()).prop_map(|(n, at)| Step::Arm(n, at)),
            1 => (0u32..40).prop_map(Step::Disarm),
            3 => distance().prop_map(Step::Advance),
            3 => Just(Step::ToNext),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn what_is_due_agrees_with_a_sorted_map(start in 0u64..1 << 50, steps in prop::collection::vec(step(), 1..200)) {
            let mut now = start;
            let mut wheel = Wheel::new(now);
            let mut model = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Arm(number, ahead) => {
                        wheel.arm(number, now + ahead);
                        model.insert(number, now + ahead);
                    }
                    Step::Disarm(number) => {
                        wheel.disarm(number);
                        model.remove(&number);
                    }
                    Step::Advance(by) => now += by,
                    Step::ToNext => if let Some(tick) = wheel.next_tick() {
                        prop_assert!(tick >= now);
                        now = tick;
                    }
                }
                let earliest = model.values().min().copied();
                prop_assert_eq!(wheel.next_tick().is_some(), earliest.is_some());
                if let (Some(tick), Some(earliest)) = (wheel.next_tick(), earliest) {
                    prop_assert!(tick <= earliest.max(now));
                }
                wheel.advance(now);
                let mut found: Vec<_> = std::iter::from_fn(|| wheel.pop()).collect();
                found.sort_unstable();
                let due: Vec<_> = model
                    .iter()
                    .map(|(number, at)| (*number, *at))
                    .filter(|(_, at)| *at <= now)
                    .collect();
                prop_assert_eq!(&found, &due);
                model.retain(|_, at| *at > now);
                prop_assert_eq!(wheel.len(), model.len());
            }
        }
    }

    #[test]
    fn periodic_checks_drift_by_nothing() {
        // 200 checks with periods of 1 s to 200 s, in milliseconds, for three days; in
        // the short form until the fifth level has advanced by two lists.
        let end = if crate::is_long_form() { 72 } else { 10 } * 3_600_000;
        let mut wheel = Wheel::new(0);
        let mut turns = [0u64; 200];
        for number in 0..200u32 {
            wheel.arm(number, u64::from(number) * 7);
        }
        let mut wakes = 0u64;
        while let Some(tick) = wheel.next_tick().filter(|tick| *tick <= end) {
            wakes += 1;
            wheel.advance(tick);
            while let Some((number, deadline)) = wheel.pop() {
                assert_eq!(deadline, tick, "neither early nor late");
                turns[number as usize] += 1;
                wheel.arm(number, deadline + 1000 * (u64::from(number) + 1));
            }
        }
        for (number, turns) in (0u64..).zip(turns) {
            assert_eq!(turns, 1 + (end - number * 7) / (1000 * (number + 1)));
        }
        let total: u64 = turns.iter().sum();
        assert!(wakes < 4 * total, "{wakes} wakes for {total} deadlines");
    }

    #[test]
    fn what_is_due_comes_in_order() {
        let mut wheel = Wheel::new(5);
        for (number, at) in [(0, 300_000), (1, 70), (2, 5), (3, 9), (4, 4_200)] {
            wheel.arm(number, at);
        }
        wheel.advance(1_000_000);
        let order: Vec<_> = std::iter::from_fn(|| wheel.pop()).map(|(n, _)| n).collect();
        assert_eq!(order, [2, 3, 1, 4, 0]);
        assert!(wheel.is_empty());
        assert_eq!(wheel.next_tick(), None);
    }
}
