// SPDX-License-Identifier: Apache-2.0

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn key(number: u64) -> Key {
    Key::new(number).unwrap()
}

fn verdict(state: State, verified: bool) -> Verdict {
    let reason = match state {
        State::Down => Reason::REFUSED,
        _ => Reason::NONE,
    };
    Verdict {
        state,
        verified,
        reason,
        detail: 0,
    }
}

fn condition(number: u64, checks: &[u64]) -> Condition {
    Condition {
        key: key(number),
        checks: checks.iter().map(|n| key(*n)).collect(),
    }
}

fn group(name: &str, keys: &[u64], panic_percent: u8) -> Group {
    Group {
        name: name.into(),
        keys: keys.iter().map(|n| key(*n)).collect(),
        panic_percent,
    }
}

/// A composer and what its outputs have made known.
#[derive(Default)]
struct Bench {
    composer: Composer,
    queue: HashMap<Key, Verdict>,
    reports: usize,
    panics: Vec<(String, bool)>,
}

impl Bench {
    fn take(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Report(key, verdict) => {
                    self.reports += 1;
                    self.queue.insert(key, verdict);
                }
                Output::Panic { group, on, .. } => self.panics.push((group.into(), on)),
            }
        }
    }

    fn replace(&mut self, conditions: Vec<Condition>, groups: Vec<Group>) {
        let mut out = Vec::new();
        let queue = self.queue.clone();
        let known = |key: Key| queue.get(&key).copied().unwrap_or(Verdict::UNKNOWN);
        self.composer.replace(conditions, groups, known, &mut out);
        self.take(out);
    }

    fn observe(&mut self, number: u64, state: State) {
        let mut out = Vec::new();
        self.composer
            .observe(key(number), verdict(state, true), &mut out);
        self.take(out);
    }

    fn told(&self, number: u64) -> (State, bool) {
        let verdict = self.queue.get(&key(number));
        verdict.map_or((State::Unknown, false), |v| (v.state, v.verified))
    }
}

#[test]
fn a_condition_is_the_conjunction_of_its_checks() {
    let mut bench = Bench::default();
    bench.replace(vec![condition(9, &[1, 2])], vec![]);
    bench.observe(1, State::Up);
    assert_eq!(bench.told(9), (State::Unknown, false));
    bench.observe(2, State::Up);
    assert_eq!(bench.told(9), (State::Up, true));
    bench.observe(1, State::Down);
    assert_eq!(bench.told(9), (State::Down, true));
    assert_eq!(bench.queue[&key(9)].reason, Reason::REFUSED);
    let before = bench.reports;
    bench.observe(2, State::Down);
    assert_eq!(bench.reports, before + 1, "the check alone");
    bench.observe(1, State::Up);
    assert_eq!(bench.told(9), (State::Down, true));
    bench.observe(2, State::Up);
    assert_eq!(bench.told(9), (State::Up, true));
}

#[test]
fn a_condition_that_is_new_is_told_at_once_and_an_old_one_not_again() {
    let mut bench = Bench::default();
    for number in 1..4 {
        bench.queue.insert(key(number), verdict(State::Up, true));
    }
    bench.replace(vec![condition(9, &[1, 2])], vec![]);
    assert_eq!(bench.told(9), (State::Up, true));
    assert_eq!(bench.reports, 1);
    bench.replace(vec![condition(9, &[1, 2]), condition(8, &[3])], vec![]);
    assert_eq!(bench.told(8), (State::Up, true));
    assert_eq!(bench.reports, 2);
}

#[test]
fn a_restored_condition_keeps_its_state_until_its_checks_are_sure() {
    let mut bench = Bench::default();
    for number in [1, 2, 9] {
        bench.queue.insert(key(number), verdict(State::Up, false));
    }
    bench.replace(vec![condition(9, &[1, 2])], vec![]);
    assert_eq!(bench.reports, 0);
    bench.observe(1, State::Up);
    assert_eq!(bench.told(9), (State::Up, false));
    bench.observe(2, State::Up);
    assert_eq!(bench.told(9), (State::Up, true));
}

#[test]
fn panic_keeps_the_last_set_and_lets_the_good_through() {
    let mut bench = Bench::default();
    bench.replace(vec![], vec![group("p", &[1, 2, 3, 4], 50)]);
    for number in 1..5 {
        bench.observe(number, State::Up);
    }
    bench.observe(1, State::Down);
    bench.observe(2, State::Down);
    assert_eq!(bench.told(2), (State::Down, true), "half is enough");
    bench.observe(3, State::Down);
    assert_eq!(bench.panics, [("p".to_owned(), true)]);
    bench.observe(4, State::Down);
    assert_eq!((bench.told(3).0, bench.told(4).0), (State::Up, State::Up));
    assert_eq!(bench.composer.withheld(), 2);

    bench.observe(1, State::Up);
    assert_eq!(bench.told(1).0, State::Up);
    assert_eq!(bench.told(4).0, State::Up, "one of four is not enough");
    let before = bench.reports;
    bench.observe(3, State::Up);
    // Out of panic: the truth about the fourth, and nothing new about the third.
    assert_eq!(bench.panics.len(), 2);
    assert_eq!(bench.told(4), (State::Down, true));
    assert_eq!(bench.reports, before + 1);
    assert_eq!(bench.composer.withheld(), 0);
}

#[test]
fn taking_the_guard_away_tells_the_truth() {
    let mut bench = Bench::default();
    bench.replace(vec![], vec![group("p", &[1, 2], 100)]);
    bench.observe(1, State::Up);
    bench.observe(2, State::Up);
    bench.observe(1, State::Down);
    bench.replace(vec![], vec![group("p", &[1, 2], 100)]);
    assert_eq!(bench.told(1).0, State::Up, "a reload changes nothing");
    assert_eq!(bench.panics.len(), 1);
    // Not guarded any more: the next reload must still know that it is down.
    bench.replace(vec![], vec![group("p", &[1, 2], 10)]);
    assert_eq!(bench.told(1), (State::Down, true));
    assert_eq!(bench.panics.len(), 2);
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![Just(State::Up), Just(State::Down)]
}

proptest! {
    #[test]
    fn agrees_with_a_model(
        conditions in prop::collection::vec(prop::collection::btree_set(1u64..8, 1..4), 0..4),
        groups in prop::collection::vec(
            (prop::collection::btree_set((1u64..8).prop_union(100u64..104), 1..6), 0u8..=100),
            0..3,
        ),
        steps in prop::collection::vec((1u64..8, state()), 0..80),
        reload_at in 0usize..80,
    ) {
        let conditions: Vec<_> = (100..)
            .zip(&conditions)
            .map(|(n, checks)| condition(n, &checks.iter().copied().collect::<Vec<_>>()))
            .collect();
        let groups: Vec<_> = groups
            .iter()
            .enumerate()
            .map(|(n, (keys, percent))| {
                group(&n.to_string(), &keys.iter().copied().collect::<Vec<_>>(), *percent)
            })
            .collect();
        let mut bench = Bench::default();
        bench.replace(conditions.clone(), groups.clone());
        let mut truth: HashMap<Key, State> = HashMap::new();
        for (number, (check, state)) in steps.into_iter().enumerate() {
            if truth.insert(key(check), state) != Some(state) {
                bench.observe(check, state);
            }
            if number == reload_at {
                bench.replace(conditions.clone(), groups.clone());
            }
            for condition in &conditions {
                let of = |key: &Key| truth.get(key).copied().unwrap_or(State::Unknown);
                let states: Vec<_> = condition.checks.iter().map(of).collect();
                let joined = if states.contains(&State::Down) {
                    State::Down
                } else if states.contains(&State::Unknown) {
                    State::Unknown
                } else {
                    State::Up
                };
                // What is known does not become unknown again.
                if joined != State::Unknown {
                    truth.insert(condition.key, joined);
                }
            }
            let panics = |key: Key| groups.iter().any(|group| {
                let down = group.keys.iter().filter(|k| truth.get(k) == Some(&State::Down));
                group.keys.contains(&key)
                    && (group.keys.len() - down.count()) * 100
                        < usize::from(group.panic_percent) * group.keys.len()
            });
            for (key, state) in &truth {
                let told = bench.queue.get(key).map_or(State::Unknown, |v| v.state);
                if told != *state {
                    // Only a key that is down may be told otherwise, and only in panic.
                    prop_assert_eq!(*state, State::Down);
                    prop_assert!(panics(*key), "{} is {:?}", key, told);
                }
            }
        }
    }
}
