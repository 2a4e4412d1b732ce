// SPDX-License-Identifier: Apache-2.0

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::reason::Reason;

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

/// An aggregator and the states that its outputs have reported.
#[derive(Default)]
struct Harness {
    aggregator: Aggregator,
    queue: HashMap<Key, Verdict>,
    reports: usize,
    panics: Vec<(String, bool)>,
}

impl Harness {
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
        self.aggregator.replace(conditions, groups, known, &mut out);
        self.take(out);
    }

    fn observe(&mut self, number: u64, state: State) {
        let mut out = Vec::new();
        self.aggregator
            .observe(key(number), verdict(state, true), &mut out);
        self.take(out);
    }

    fn reported(&self, number: u64) -> (State, bool) {
        let verdict = self.queue.get(&key(number));
        verdict.map_or((State::Unknown, false), |v| (v.state, v.verified))
    }
}

#[test]
fn a_condition_is_the_conjunction_of_its_checks() {
    let mut harness = Harness::default();
    harness.replace(vec![condition(9, &[1, 2])], vec![]);
    harness.observe(1, State::Up);
    assert_eq!(harness.reported(9), (State::Unknown, false));
    harness.observe(2, State::Up);
    assert_eq!(harness.reported(9), (State::Up, true));
    harness.observe(1, State::Down);
    assert_eq!(harness.reported(9), (State::Down, true));
    assert_eq!(harness.queue[&key(9)].reason, Reason::REFUSED);
    let before = harness.reports;
    harness.observe(2, State::Down);
    assert_eq!(harness.reports, before + 1, "the check alone");
    harness.observe(1, State::Up);
    assert_eq!(harness.reported(9), (State::Down, true));
    harness.observe(2, State::Up);
    assert_eq!(harness.reported(9), (State::Up, true));
}

#[test]
fn a_condition_that_is_new_is_reported_at_once_and_an_old_one_not_again() {
    let mut harness = Harness::default();
    for number in 1..4 {
        harness.queue.insert(key(number), verdict(State::Up, true));
    }
    harness.replace(vec![condition(9, &[1, 2])], vec![]);
    assert_eq!(harness.reported(9), (State::Up, true));
    assert_eq!(harness.reports, 1);
    harness.replace(vec![condition(9, &[1, 2]), condition(8, &[3])], vec![]);
    assert_eq!(harness.reported(8), (State::Up, true));
    assert_eq!(harness.reports, 2);
}

#[test]
fn a_restored_condition_keeps_its_state_until_its_checks_are_sure() {
    let mut harness = Harness::default();
    for number in [1, 2, 9] {
        harness.queue.insert(key(number), verdict(State::Up, false));
    }
    harness.replace(vec![condition(9, &[1, 2])], vec![]);
    assert_eq!(harness.reports, 0);
    harness.observe(1, State::Up);
    assert_eq!(harness.reported(9), (State::Up, false));
    harness.observe(2, State::Up);
    assert_eq!(harness.reported(9), (State::Up, true));
}

#[test]
fn panic_keeps_the_last_set_and_reports_what_comes_up() {
    let mut harness = Harness::default();
    harness.replace(vec![], vec![group("p", &[1, 2, 3, 4], 50)]);
    for number in 1..5 {
        harness.observe(number, State::Up);
    }
    harness.observe(1, State::Down);
    harness.observe(2, State::Down);
    assert_eq!(harness.reported(2), (State::Down, true), "half is enough");
    harness.observe(3, State::Down);
    assert_eq!(harness.panics, [("p".to_owned(), true)]);
    harness.observe(4, State::Down);
    assert_eq!(
        (harness.reported(3).0, harness.reported(4).0),
        (State::Up, State::Up)
    );
    assert_eq!(harness.aggregator.withheld(), 2);

    harness.observe(1, State::Up);
    assert_eq!(harness.reported(1).0, State::Up);
    assert_eq!(
        harness.reported(4).0,
        State::Up,
        "one of four is not enough"
    );
    let before = harness.reports;
    harness.observe(3, State::Up);
    // Out of panic: the fourth is reported, and nothing new about the third.
    assert_eq!(harness.panics.len(), 2);
    assert_eq!(harness.reported(4), (State::Down, true));
    assert_eq!(harness.reports, before + 1);
    assert_eq!(harness.aggregator.withheld(), 0);
}

#[test]
fn taking_the_guard_away_reports_what_was_withheld() {
    let mut harness = Harness::default();
    harness.replace(vec![], vec![group("p", &[1, 2], 100)]);
    harness.observe(1, State::Up);
    harness.observe(2, State::Up);
    harness.observe(1, State::Down);
    harness.replace(vec![], vec![group("p", &[1, 2], 100)]);
    assert_eq!(harness.reported(1).0, State::Up, "a reload changes nothing");
    assert_eq!(harness.panics.len(), 1);
    // No longer guarded; after the next reload it must still be down.
    harness.replace(vec![], vec![group("p", &[1, 2], 10)]);
    assert_eq!(harness.reported(1), (State::Down, true));
    assert_eq!(harness.panics.len(), 2);
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![Just(State::Up), Just(State::Down)]
}

proptest! {
    #[test]
    fn reports_agree_with_a_model_of_conditions_and_panic(
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
        let mut harness = Harness::default();
        harness.replace(conditions.clone(), groups.clone());
        let mut truth: HashMap<Key, State> = HashMap::new();
        for (number, (check, state)) in steps.into_iter().enumerate() {
            if truth.insert(key(check), state) != Some(state) {
                harness.observe(check, state);
            }
            if number == reload_at {
                harness.replace(conditions.clone(), groups.clone());
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
                // A known state never becomes unknown again.
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
                let reported = harness.queue.get(key).map_or(State::Unknown, |v| v.state);
                if reported != *state {
                    // Only a down key may be reported differently, and only in panic.
                    prop_assert_eq!(*state, State::Down);
                    prop_assert!(panics(*key), "{} is {:?}", key, reported);
                }
            }
        }
    }
}
