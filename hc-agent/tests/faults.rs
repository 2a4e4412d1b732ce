// SPDX-License-Identifier: Apache-2.0
//! Death at every step of writing the queue, and clocks that jump. The server of the
//! check `STEADY` is up all the time.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::thread;
use std::time::Duration;

use octavia_xdp_hc::state::State;

use crate::support::documents::{A as STEADY, B as OTHER, tcp};
use crate::support::namespace::{in_namespace, run};
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
    // Reading a file that is cut off anywhere must not panic.
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

/// Fill the file system of a directory, to the last byte.
fn fill(node: &Node) {
    let path = node.queue.join(".tmp-filler");
    let file = fs::File::options().append(true).create(true).open(path);
    let mut file = file.unwrap();
    for part in [vec![0; 4096], vec![0]] {
        while file.write_all(&part).is_ok() {}
    }
}

#[test]
fn changes_reach_a_queue_whose_file_system_others_have_filled() {
    if !in_namespace("faults::changes_reach_a_queue_whose_file_system_others_have_filled")
    {
        return;
    }
    let mut node = Node::new();
    run(&format!(
        "mount -t tmpfs -o size=4m tmpfs {}",
        node.queue.display()
    ));
    let steady = Server::start(FINE);
    let mut other = Some(Server::start(FINE));
    let target = other.as_ref().unwrap().address;
    node.write(&[tcp(STEADY, steady.address, 1), tcp(OTHER, target, 1)]);
    node.start();
    node.wait_state(STEADY, State::Up);
    node.wait_state(OTHER, State::Up);
    // Everything else is written.
    pause(Duration::from_secs(2));
    for (round, state) in [State::Down, State::Up, State::Down]
        .into_iter()
        .enumerate()
    {
        fill(&node);
        if state == State::Down {
            other.take();
        } else {
            other = Some(Server::at(target, FINE));
        }
        node.wait("the change in the queue", || {
            node.reported().iter().rev().any(|record| {
                record.state == state && record.key == OTHER.parse().unwrap()
            })
        });
        if round < 2 {
            // As the handler does.
            for delta in node.delta_paths() {
                fs::remove_file(delta).unwrap();
            }
        }
    }
    assert_never_down(&node, STEADY);
    assert!(
        !node.log().contains("cannot write changes"),
        "{}",
        node.log()
    );

    // Without that room it is said once, however often it is tried.
    fs::remove_file(node.queue.join(".tmp-reserve")).unwrap();
    fill(&node);
    let _other = Server::at(target, FINE);
    node.wait_logged("cannot write changes");
    // It may have been full, and free again, before.
    node.wait("the snapshot that cannot be written", || {
        let log = node.log();
        log.matches("cannot write the snapshot").count()
            > log.matches("can write the snapshot again").count()
    });
    let said = || node.log().matches("cannot write").count();
    let before = said();
    pause(Duration::from_secs(3));
    assert_eq!(said(), before, "{}", node.log());
    fs::remove_file(node.queue.join(".tmp-filler")).unwrap();
    node.wait_state(OTHER, State::Up);
    node.wait_logged("again");
    node.terminate();
}
