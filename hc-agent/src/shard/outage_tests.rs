// SPDX-License-Identifier: Apache-2.0

use std::io;
use std::time::Duration;

use rustix::io::Errno;

use super::*;
use crate::config::{Check, ProbeSpec};
use crate::key::Key;
use crate::probe::{Failure, ProbeOutcome, Stage};
use crate::shard::core::Settings;
use crate::state::State;

const DELAY_MS: u64 = 2000;
const TOOK_MS: u64 = 1000;

fn check(number: u64, target: &str, probe: ProbeSpec) -> Arc<Check> {
    Arc::new(Check {
        key: Key::new(number).unwrap(),
        target: target.parse().unwrap(),
        mark: None,
        proxy_protocol: None,
        delay: Duration::from_millis(DELAY_MS),
        timeout: Duration::from_millis(TOOK_MS),
        rise: 2,
        fall: 2,
        probe,
    })
}

fn tcp(number: u64) -> Arc<Check> {
    check(number, "198.18.0.1:80", ProbeSpec::Tcp)
}

/// A shard with checks that are up.
fn core(checks: impl IntoIterator<Item = Arc<Check>>) -> Core {
    let mut core = Core::new(Settings {
        max_in_flight: 100,
        max_partings: 0,
        fast_interval_ms: None,
        once: false,
    });
    for check in checks {
        core.put(check, 1, || Some(State::Up), 0);
    }
    core
}

fn timeout() -> Result<(), Failure> {
    Err(Failure::Timeout(Stage::Connect))
}

fn no_route() -> Result<(), Failure> {
    let errno = Errno::NETUNREACH.raw_os_error();
    Err(Failure::Unreachable(io::Error::from_raw_os_error(errno)))
}

/// An outlook: uplinks work since a moment, or not at all, as of another.
fn known(since_ms: impl Into<Option<u64>>, as_of_ms: u64) -> [Option<Outlook>; 2] {
    let since = since_ms.into().map(|ms| Since {
        ns: ms * 1_000_000,
        ms,
    });
    [Some(Outlook { as_of_ms, since }), None]
}

/// Run the next due probe; returns its end.
fn turn(core: &mut Core, result: Result<(), Failure>) -> u64 {
    loop {
        let tick = core.wheel.next_tick().unwrap();
        core.wheel.advance(tick);
        let Some((number, due)) = core.wheel.pop() else {
            continue;
        };
        let check = core.start(number, due, tick).unwrap();
        let took = Duration::from_millis(TOOK_MS);
        let outcome = ProbeOutcome {
            result,
            status: 0,
            took,
            overrun: Duration::ZERO,
        };
        let end = tick + TOOK_MS;
        core.finish(number, check, outcome, Duration::ZERO, end);
        return end;
    }
}

fn state(core: &Core) -> State {
    core.slots[0].as_ref().unwrap().machine.state()
}

fn settled(core: &Core) -> bool {
    core.slots[0].as_ref().unwrap().settled
}

#[test]
fn failures_without_an_uplink_change_nothing_however_many() {
    let mut core = core([tcp(1)]);
    core.set_outlook(known(None, 1 << 40), 1);
    for _ in 0..10 {
        turn(&mut core, timeout());
        turn(&mut core, no_route());
    }
    assert_eq!(state(&core), State::Up);
    assert_eq!(core.stats.discarded_uplink, 20);
    assert!(core.events.is_empty() && !core.waits());
}

#[test]
fn failures_count_if_nobody_says_anything_about_uplinks() {
    let mut core = core([tcp(1)]);
    turn(&mut core, timeout());
    turn(&mut core, no_route());
    assert_eq!(state(&core), State::Down);
}

#[test]
fn a_failure_waits_until_it_is_known_that_an_uplink_worked() {
    let mut core = core([tcp(1)]);
    core.set_outlook(known(0, 10), 10);
    for _ in 0..2 {
        let end = turn(&mut core, timeout());
        assert!(core.waits());
        assert_eq!(state(&core), State::Up);
        // A report from before its end is inconclusive.
        core.set_outlook(known(0, end), end);
        assert!(core.waits());
        core.set_outlook(known(0, end + 1), end + 20);
        assert!(!core.waits());
    }
    assert_eq!(state(&core), State::Down);
    assert_eq!(core.stats.discarded_uplink, 0);
}

#[test]
fn a_link_that_was_lost_for_a_moment_of_the_probe_discards_its_failure() {
    let mut core = core([tcp(1)]);
    core.set_outlook(known(0, 10), 10);
    for _ in 0..5 {
        let end = turn(&mut core, no_route());
        let moment = end - TOOK_MS / 2;
        core.set_outlook(known(moment, end + 5), end + 20);
        assert!(!core.waits());
    }
    assert_eq!(state(&core), State::Up);
    assert_eq!(core.stats.discarded_uplink, 5);
}

#[test]
fn without_an_answer_of_the_agent_failures_count() {
    let mut silent = core([tcp(1)]);
    silent.set_outlook(known(0, 10), 10);
    for _ in 0..2 {
        let end = turn(&mut silent, timeout());
        silent.judge_deferred(end + ANSWER_MAX_MS - 1);
        assert!(silent.waits());
        silent.judge_deferred(end + ANSWER_MAX_MS);
        assert!(!silent.waits());
    }
    assert_eq!(state(&silent), State::Down);

    // An agent that was killed after reporting that no uplink works.
    let mut dead = core([tcp(1)]);
    dead.set_outlook(known(None, 0), 0);
    let mut end = 0;
    while !dead.waits() {
        end = turn(&mut dead, timeout());
    }
    dead.set_outlook([None; 2], end + 1);
    turn(&mut dead, timeout());
    turn(&mut dead, timeout());
    assert_eq!(state(&dead), State::Down);
}

#[test]
fn what_a_target_or_a_router_answers_counts_without_an_uplink() {
    let mut core = core([tcp(1)]);
    core.set_outlook(known(None, 1), 1);
    turn(&mut core, Err(Failure::Refused));
    turn(&mut core, Err(Failure::BadStatus(503)));
    assert_eq!(state(&core), State::Down);
    turn(&mut core, Ok(()));
    turn(&mut core, Ok(()));
    assert_eq!(state(&core), State::Up);
}

#[test]
fn an_unreachable_that_a_router_sent_counts_while_uplinks_work() {
    let mut core = core([tcp(1)]);
    for _ in 0..2 {
        core.set_outlook(known(0, u64::MAX), 10);
        turn(&mut core, no_route());
    }
    assert_eq!(state(&core), State::Down);
}

#[test]
fn the_other_family_goes_on_counting() {
    let mut core = core([check(1, "[2001:db8::1]:80", ProbeSpec::Tcp)]);
    core.set_outlook(known(None, 1), 1);
    turn(&mut core, timeout());
    turn(&mut core, timeout());
    assert_eq!(state(&core), State::Down);
}

#[test]
fn silence_is_no_success_without_an_uplink() {
    let mut core = core([check(1, "198.18.0.1:53", ProbeSpec::UdpConnect)]);
    turn(&mut core, Err(Failure::IcmpUnreachable("port")));
    turn(&mut core, Err(Failure::IcmpUnreachable("port")));
    assert_eq!(state(&core), State::Down);
    core.set_outlook(known(None, 1 << 40), 1);
    for _ in 0..4 {
        turn(&mut core, Ok(()));
    }
    assert_eq!(state(&core), State::Down);
    let end = core.wheel.next_tick().unwrap() + 10 * DELAY_MS;
    core.set_outlook(known(1, end), 1);
    turn(&mut core, Ok(()));
    turn(&mut core, Ok(()));
    assert_eq!(state(&core), State::Up);
}

#[test]
fn all_checks_are_probed_at_once_when_uplinks_work_again() {
    let mut core = core((1..=50).map(tcp));
    core.begin_reload(50);
    core.set_outlook(known(None, 1), 1);
    let back = 7;
    let again = core.set_outlook(known(back, back), back);
    assert_eq!(again, [true, false]);
    core.probe_again(0..core.slots.len(), again, back);
    let mut probed = 0;
    while let Some(tick) = core.wheel.next_tick().filter(|tick| *tick <= back + 25) {
        core.wheel.advance(tick);
        while let Some((number, due)) = core.wheel.pop() {
            core.start(number, due, tick).unwrap();
            probed += 1;
        }
    }
    assert_eq!(probed, 50, "spread over 25 ms: 2000 in a second");
    // The same moment again is not a return, a later one is.
    assert_eq!(core.set_outlook(known(back, 99), 99), [false; 2]);
    assert_eq!(core.set_outlook(known(98, 99), 99), [true, false]);
}

#[test]
fn a_probe_that_runs_at_the_return_is_followed_by_another_at_once() {
    let mut core = core([tcp(1)]);
    core.set_outlook(known(None, 1), 1);
    let tick = core.wheel.next_tick().unwrap();
    core.wheel.advance(tick);
    let (number, due) = core.wheel.pop().unwrap();
    let running = core.start(number, due, tick).unwrap();
    let back = tick + 300;
    let again = core.set_outlook(known(back, back), back);
    core.probe_again(0..1, again, back);
    let outcome = ProbeOutcome {
        result: timeout(),
        status: 0,
        took: Duration::from_millis(TOOK_MS),
        overrun: Duration::ZERO,
    };
    let end = tick + TOOK_MS;
    core.finish(number, running, outcome, Duration::ZERO, end);
    let next = core.wheel.next_tick().unwrap();
    assert!(next <= end + 300, "{next}, not a whole interval later");
    assert_eq!(state(&core), State::Up);
}

#[test]
fn a_check_is_settled_by_a_probe_since_the_return_that_leaves_no_doubt() {
    let mut core = core([tcp(1)]);
    assert!(!settled(&core));
    turn(&mut core, Ok(()));
    assert!(settled(&core));

    let back = core.wheel.next_tick().unwrap() + 1;
    core.set_outlook(known(None, back - 1), back - 1);
    let again = core.set_outlook(known(back, 1_000_000), back);
    core.probe_again(0..1, again, back + 2);
    assert!(!settled(&core));
    // A first failure does not settle it either, the one that takes it down does.
    turn(&mut core, timeout());
    assert!(!settled(&core));
    turn(&mut core, timeout());
    assert_eq!(state(&core), State::Down);
    assert!(settled(&core));
}

#[test]
fn an_outcome_that_waits_is_forgotten_with_its_check() {
    let mut core = core([tcp(1)]);
    core.set_outlook(known(0, 10), 10);
    let end = turn(&mut core, timeout());
    assert_eq!(core.sweep(0..1, 2), 1);
    core.put(tcp(2), 2, || Some(State::Up), end);
    core.set_outlook(known(0, end + 1), end + 1);
    assert!(!core.waits() && core.events.is_empty());
    assert_eq!(state(&core), State::Up);
}
