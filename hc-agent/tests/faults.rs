// SPDX-License-Identifier: Apache-2.0
//! Death at every step of writing the queue, and clocks that jump. The server of the
//! check `STEADY` is up all the time.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use octavia_xdp_hc::state::State;

use crate::support::documents::{A as STEADY, B as OTHER, tcp};
use crate::support::node::{Node, PATIENCE, PROGRAM, now, pause};
use crate::support::preload::library;
use crate::support::server::{FINE, Server};

/// Wait for a state, or for the end of the program. Returns whether it has ended.
fn ends_before(node: &mut Node, key: &str, state: State) -> bool {
    let end = now() + PATIENCE;
    loop {
        let child = node.child.as_mut().unwrap();
        if child.try_wait().unwrap().is_some() {
            node.child = None;
            return true;
        }
        if node.state(key) == Some((state, true)) {
            return false;
        }
        assert!(now() < end, "no {state:?} of {key}\n{}", node.log());
        pause(Duration::from_millis(10));
    }
}

fn assert_never_down(node: &Node, key: &str) {
    // Whoever reads a file that is cut off anywhere has panicked here.
    let deltas = node.deltas();
    let key = key.parse().unwrap();
    let mut records = deltas.iter().flat_map(|delta| &delta.records);
    assert!(!records.any(|r| r.key == key && r.state == State::Down));
}

/// One life that ends at a step, if it comes to it, and one that goes on from there.
fn die_at(step: usize) -> bool {
    let mut node = Node::new();
    let steady = Server::start(FINE);
    let other = Server::start(FINE);
    node.write(&[tcp(STEADY, steady.address, 1), tcp(OTHER, other.address, 1)]);
    let mut program = Command::new(PROGRAM);
    program.env("LD_PRELOAD", library());
    program.env("FAULTS_STEP", step.to_string());
    node.launch(&mut program);
    let died = ends_before(&mut node, STEADY, State::Up)
        || ends_before(&mut node, OTHER, State::Up);
    drop(other);
    let died = died || ends_before(&mut node, OTHER, State::Down);
    assert_never_down(&node, STEADY);
    if !died {
        node.kill();
    }
    let boot = if node.queue.join("snapshot").exists() {
        node.snapshot().expect("a whole snapshot").boot
    } else {
        0
    };
    node.start();
    node.wait("snapshot of the next life", || {
        node.snapshot().is_some_and(|s| s.boot > boot)
    });
    node.wait_state(STEADY, State::Up);
    node.wait_state(OTHER, State::Down);
    assert_never_down(&node, STEADY);
    assert!(!node.queue.join("rejected").exists(), "{}", node.log());
    node.terminate();
    died
}

#[test]
fn death_at_any_step_of_writing_leaves_whole_files_and_no_false_down() {
    // A file takes three steps. At least five are written until the second server is
    // reported down, and never as many as twelve: then the steps were all there are.
    let died = thread::scope(|scope| {
        let lives: Vec<_> = (1..=36)
            .map(|step| scope.spawn(move || die_at(step)))
            .collect();
        let lives = lives.into_iter().map(|life| life.join().unwrap());
        lives.collect::<Vec<bool>>()
    });
    assert!(died[..15].iter().all(|died| *died), "{died:?}");
    assert!(!died[35], "{died:?}");
}

#[test]
fn a_clock_that_jumps_disturbs_neither_states_nor_sequences() {
    const YEAR: i64 = 365 * 86400;
    let mut node = Node::new();
    let steady = Server::start(FINE);
    let mut other = Some(Server::start(FINE));
    let target = other.as_ref().unwrap().address;
    node.write(&[tcp(STEADY, steady.address, 1), tcp(OTHER, target, 1)]);
    let clock = node.folder.path().join("clock");
    let mut program = Command::new(PROGRAM);
    program.env("LD_PRELOAD", library());
    program.env("FAULTS_CLOCK", &clock);
    node.launch(&mut program);
    node.wait_state(STEADY, State::Up);
    node.wait_state(OTHER, State::Up);
    let before = node.record(OTHER).unwrap().time_ns;
    for (number, jump) in [-YEAR, YEAR, -1, 3600].into_iter().enumerate() {
        fs::write(&clock, jump.to_string()).unwrap();
        if other.take().is_some() {
            node.wait_state(OTHER, State::Down);
        } else {
            other = Some(Server::at(target, FINE));
            node.wait_state(OTHER, State::Up);
        }
        let time = node.record(OTHER).unwrap().time_ns;
        if number == 0 {
            assert!(time < before, "the clock has not jumped");
        }
    }
    assert_never_down(&node, STEADY);
    // Sequences alone give the order.
    let firsts: Vec<_> = node.deltas().iter().map(|d| d.first_sequence).collect();
    assert!(firsts.is_sorted(), "{firsts:?}");
    assert!(node.snapshot().unwrap().boot == node.deltas()[0].boot);
    assert_eq!(node.snapshot().unwrap().stretch_percent, 100);
    assert!(!node.log().contains("too slow"), "{}", node.log());
    node.terminate();
}
