// SPDX-License-Identifier: Apache-2.0

use std::io;

use rustix::io::Errno;

use super::*;
use crate::config::ProbeSpec;

const DELAY_MS: u64 = 5000;

fn key(number: u64) -> Key {
    Key::new(number).unwrap()
}

fn check(number: u64) -> Arc<Check> {
    check_each(number, DELAY_MS)
}

/// A check that goes down or up after two results.
pub(in crate::shard) fn check_each(number: u64, delay_ms: u64) -> Arc<Check> {
    Arc::new(Check {
        key: key(number),
        target: "198.18.0.1:80".parse().unwrap(),
        mark: None,
        proxy_protocol: None,
        delay: Duration::from_millis(delay_ms),
        timeout: Duration::from_secs(1),
        rise: 2,
        fall: 2,
        probe: ProbeSpec::Tcp,
    })
}

fn core(fast_interval_ms: Option<u64>) -> Core {
    Core::new(Settings {
        max_in_flight: 100,
        max_partings: 0,
        fast_interval_ms,
        once: false,
    })
}

fn outcome(result: Result<(), Failure>) -> ProbeOutcome {
    ProbeOutcome {
        result,
        status: 0,
        took: Duration::ZERO,
        overrun: Duration::ZERO,
    }
}

/// Wait for the next deadline, and run a probe that ends at once.
fn turn(core: &mut Core, result: Result<(), Failure>, late: Duration) -> u64 {
    loop {
        let tick = core.wheel.next_tick().unwrap();
        core.wheel.advance(tick);
        if let Some((number, due)) = core.wheel.pop() {
            assert_eq!(due, tick);
            let check = core.start(number, due, tick).unwrap();
            core.finish(number, check, outcome(result), late, tick);
            return tick;
        }
    }
}

fn gaps(core: &mut Core, results: &str) -> Vec<u64> {
    let mut last = None;
    let mut gaps = Vec::new();
    for sign in results.chars() {
        let result = (sign == '+').then_some(()).ok_or(Failure::Refused);
        let tick = turn(core, result, Duration::ZERO);
        gaps.extend(last.replace(tick).map(|last| tick - last));
    }
    gaps
}

#[test]
fn probes_keep_their_distance_whatever_comes() {
    let mut core = core(None);
    core.put(check(1), 1, || None, 0);
    let gaps = gaps(&mut core, "+-+----++");
    // The first probe comes early, to its place in the interval.
    assert!(
        gaps[0] >= DELAY_MS / 2 && gaps[0] <= DELAY_MS * 3 / 2,
        "{gaps:?}"
    );
    assert!(gaps[1..].iter().all(|gap| *gap == DELAY_MS), "{gaps:?}");
}

#[test]
fn a_check_in_doubt_is_probed_faster_if_wanted() {
    let mut core = core(Some(1000));
    core.put(check(1), 1, || Some(State::Up), 0);
    turn(&mut core, Ok(()), Duration::ZERO);
    let gaps = gaps(&mut core, "++--+++++");
    // Up, first failure, down, one success, up again: full intervals only while up.
    assert_eq!(gaps[0], DELAY_MS);
    assert_eq!(gaps[1], DELAY_MS);
    assert!(
        gaps[2..5].iter().all(|gap| (500..=1500).contains(gap)),
        "{gaps:?}"
    );
    assert_eq!(*gaps.last().unwrap(), DELAY_MS);
}

#[test]
fn a_stretch_lengthens_all_intervals() {
    let mut core = core(None);
    core.put(check(1), 1, || None, 0);
    turn(&mut core, Ok(()), Duration::ZERO);
    core.stretch_permille = 3 * NO_STRETCH;
    turn(&mut core, Ok(()), Duration::ZERO);
    let gaps = gaps(&mut core, "++++");
    assert!(gaps[1..].iter().all(|gap| *gap == 3 * DELAY_MS), "{gaps:?}");
}

#[test]
fn failures_by_own_lateness_or_shortage_are_discarded() {
    let mut core = core(None);
    core.put(check(1), 1, || Some(State::Up), 0);
    core.room = 40;
    core.in_flight = 24;
    for _ in 0..20 {
        let stage = crate::probe::Stage::Connect;
        turn(
            &mut core,
            Err(Failure::Timeout(stage)),
            Duration::from_millis(400),
        );
        let shortage = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
        turn(&mut core, Err(Failure::Local(shortage)), Duration::ZERO);
    }
    assert!(core.events.is_empty());
    assert_eq!(
        (core.stats.discarded_delay, core.stats.discarded_shortage),
        (20, 20)
    );
    assert_eq!(core.room, 21, "fewer at a time");
    assert_eq!(core.counts, [0, 1, 0]);
}

#[test]
fn silence_behind_a_limit_of_errors_changes_nothing() {
    for state in [State::Up, State::Down, State::Unknown] {
        let mut core = core(None);
        core.put(check(1), 1, || Some(state), 0);
        for _ in 0..20 {
            turn(&mut core, Err(Failure::ErrorsLimited), Duration::ZERO);
        }
        assert!(core.events.is_empty());
        assert_eq!(core.slots[0].as_ref().unwrap().machine.state(), state);
        assert_eq!(core.stats.discarded_silence, 20);
    }
}

#[test]
fn a_probe_that_is_far_too_late_is_put_off_once() {
    let mut core = core(None);
    core.begin_reload(1);
    core.put(check(1), 1, || None, 0);
    let late = 60_000;
    core.wheel.advance(late);
    let (number, due) = core.wheel.pop().unwrap();
    assert!(core.start(number, due, late).is_none());
    let again = 2 * late;
    core.wheel.advance(again);
    let (number, due) = core.wheel.pop().unwrap();
    assert!(
        core.start(number, due, again).is_some(),
        "late, but at last"
    );
    assert_eq!(core.stats.put_off, 1);
}

#[test]
fn an_outcome_of_a_check_that_has_gone_changes_nothing() {
    let mut core = core(None);
    core.put(check(1), 1, || None, 0);
    core.wheel.advance(DELAY_MS);
    let (number, due) = core.wheel.pop().unwrap();
    let old = core.start(number, due, due).unwrap();
    assert_eq!(core.sweep(0..10, 2), 1);
    core.put(check(2), 2, || None, DELAY_MS);
    core.finish(number, old, outcome(Ok(())), Duration::ZERO, DELAY_MS);
    assert!(core.events.is_empty());
    assert_eq!((core.in_flight, core.checks()), (0, 1));
    assert_eq!(core.counts, [1, 0, 0]);
}

/// 100 checks with occasional failures, for two days, in the short form half a day:
/// there are neither too few nor too many probes, and states follow the results.
#[test]
fn simulated_days_have_as_many_probes_and_downs_as_the_checks_ask_for() {
    let hours = if crate::is_long_form() { 48 } else { 12 };
    let end = hours * 3_600_000;
    let mut core = core(None);
    core.begin_reload(100);
    for number in 1..=100 {
        core.put(check(number), 1, || None, 0);
    }
    let mut probes = 0u64;
    while let Some(tick) = core.wheel.next_tick().filter(|tick| *tick <= end) {
        core.wheel.advance(tick);
        while let Some((number, due)) = core.wheel.pop() {
            let check = core.start(number, due, tick).unwrap();
            probes += 1;
            // Every check fails for ten minutes of each hour, at a different time.
            let minute = (tick / 60_000 + u64::from(number)) % 60;
            let result = (minute >= 10).then_some(()).ok_or(Failure::Refused);
            core.finish(number, check, outcome(result), Duration::ZERO, tick);
        }
    }
    let wanted = 100 * end / DELAY_MS;
    assert!(probes.abs_diff(wanted) <= 200, "{probes} of {wanted}");
    let downs = core
        .events
        .iter()
        .filter(|e| e.to == State::Down && e.from == State::Up);
    let downs = u64::try_from(downs.count()).unwrap();
    assert!(downs.abs_diff(100 * hours) <= 200, "{downs}");
}
