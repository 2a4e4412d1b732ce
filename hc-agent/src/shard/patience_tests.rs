// SPDX-License-Identifier: Apache-2.0

use std::sync::Arc;

use rustix::io::Errno;

use super::super::core::tests::check_each;
use super::super::core::{Core, Settings};
use super::*;
use crate::config::Check;
use crate::probe::{Failure, ProbeOutcome};
use crate::state::State;

const DELAY_MS: u64 = 1000;
const PATIENCE: Duration = Duration::from_secs(10);

fn check() -> Arc<Check> {
    check_each(1, DELAY_MS)
}

/// A check that is probed every second.
struct Probed {
    core: Core,
}

impl Probed {
    fn new(state: Option<State>) -> Self {
        let mut core = Core::new(Settings {
            max_in_flight: 1,
            max_partings: 0,
            fast_interval_ms: None,
            once: false,
        });
        core.put(check(), 1, || state, 0);
        Self { core }
    }

    fn moving(state: Option<State>) -> Self {
        let mut probed = Self::new(state);
        probed.set(Some(PATIENCE));
        probed
    }

    fn set(&mut self, patience: Option<Duration>) {
        let wanted = patience.map(|time| (check().key, time));
        self.core.patience.replace(wanted.into_iter());
    }

    fn probe(&mut self, result: Result<(), Failure>) -> State {
        let tick_ms = self.core.wheel.next_tick().unwrap();
        self.core.wheel.advance(tick_ms);
        let Some((number, due_ms)) = self.core.wheel.pop() else {
            return self.probe(result);
        };
        let check = self.core.start(number, due_ms, tick_ms).unwrap();
        let outcome = ProbeOutcome {
            result,
            status: 0,
            took: Duration::ZERO,
            overrun: Duration::ZERO,
        };
        self.core
            .finish(number, check, outcome, Duration::ZERO, tick_ms);
        self.state()
    }

    fn up(&mut self) -> State {
        self.probe(Ok(()))
    }

    fn fail(&mut self) -> State {
        self.probe(Err(Failure::Refused))
    }

    /// Fail until the check is down; returns the number of failures.
    fn fail_until_down(&mut self) -> u64 {
        let down = (1..=1000).find(|_| self.fail() == State::Down);
        down.expect("it is never down")
    }

    fn state(&self) -> State {
        let slot = self.core.slots[0].as_ref().unwrap();
        slot.machine.state()
    }
}

#[test]
fn a_check_without_patience_is_judged_by_its_thresholds() {
    assert_eq!(Probed::new(Some(State::Up)).fail_until_down(), 2);
}

#[test]
fn a_member_that_moves_is_down_once_its_patience_is_over() {
    for state in [State::Up, State::Unknown] {
        // The first probe is less than an interval before the second.
        let failures = Probed::moving(Some(state)).fail_until_down();
        assert!((10..=12).contains(&failures), "{failures}");
    }
}

#[test]
fn failures_before_the_threshold_do_not_bring_it_down_however_patient() {
    let mut probed = Probed::new(Some(State::Up));
    probed.set(Some(Duration::from_millis(1)));
    assert_eq!(probed.fail_until_down(), 2);
}

#[test]
fn a_success_begins_it_anew() {
    let mut probed = Probed::moving(Some(State::Up));
    for _ in 0..8 {
        assert_eq!(probed.fail(), State::Up);
    }
    assert_eq!(probed.up(), State::Up);
    assert!(probed.fail_until_down() >= 10);
    assert_eq!(probed.core.events.len(), 2, "verified, and down");
}

#[test]
fn more_failures_than_can_be_counted_bring_it_down_no_sooner() {
    let mut probed = Probed::new(Some(State::Up));
    probed.set(Some(Duration::from_secs(600)));
    assert!(probed.fail_until_down() >= 599);
}

#[test]
fn what_is_down_already_comes_up_by_its_threshold() {
    let mut probed = Probed::moving(Some(State::Down));
    assert_eq!(probed.fail(), State::Down);
    assert_eq!(probed.up(), State::Down);
    assert_eq!(probed.fail(), State::Down);
    assert_eq!(probed.up(), State::Down);
    assert_eq!(probed.up(), State::Up);
}

#[test]
fn a_failing_check_is_down_at_once_when_there_is_no_patience_any_more() {
    let mut probed = Probed::moving(Some(State::Up));
    for _ in 0..5 {
        assert_eq!(probed.fail(), State::Up);
    }
    probed.set(None);
    assert_eq!(probed.fail(), State::Down);
}

#[test]
fn a_file_that_says_the_same_prolongs_nothing() {
    let mut probed = Probed::moving(Some(State::Up));
    let mut failures = 1;
    while probed.fail() == State::Up {
        probed.set(Some(PATIENCE));
        failures += 1;
        assert!(failures <= 12);
    }
}

#[test]
fn failures_of_this_node_begin_and_end_nothing() {
    let mut probed = Probed::moving(Some(State::Up));
    let shortage = || {
        let error = std::io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
        Err(Failure::Local(error))
    };
    for _ in 0..20 {
        assert_eq!(probed.probe(shortage()), State::Up);
    }
    for _ in 0..5 {
        assert_eq!(probed.fail(), State::Up);
        assert_eq!(probed.probe(shortage()), State::Up);
    }
}
