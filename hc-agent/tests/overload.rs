// SPDX-License-Identifier: Apache-2.0
//! The program short of time and descriptors, reloaded and killed while it works: it
//! never reports down what is up.

use std::process::Command;
use std::time::Duration;

use octavia_xdp_hc::state::State;
use rustix::process::Signal;

use crate::support::documents::{http, key, with_timeout};
use crate::support::node::{Node, PROGRAM, now, pause};
use crate::support::server::{FINE, Server, fine_after};

#[test]
fn ten_seconds_of_stop_turn_nothing_down() {
    let mut node = Node::new();
    // Answers well within the timeout, but not if most of it is gone.
    let server = Server::start(fine_after(Duration::from_secs(1)));
    let checks: Vec<_> = (1..200)
        .map(|i| with_timeout(http(&key(i), server.address, 1), 5))
        .collect();
    node.write(&checks);
    node.start();
    node.wait_all_up(checks.len());
    let before = node.downs();
    node.signal(Signal::STOP);
    pause(Duration::from_secs(10));
    node.signal(Signal::CONT);
    pause(Duration::from_secs(6));
    assert_eq!(node.downs(), before, "{}", node.log());
}

#[test]
fn reloads_under_load_change_nothing_that_stays() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let all: Vec<_> = (1..=600)
        .map(|i| http(&key(i), server.address, 1))
        .collect();
    node.write(&all[..300]);
    node.start();
    node.wait_all_up(300);
    let end = now() + Duration::from_secs(4);
    for round in 0.. {
        if now() > end {
            break;
        }
        let more = 37 * round % 300;
        node.write(&all[..=300 + more]);
        pause(Duration::from_millis(20));
    }
    node.write(&all);
    node.wait_all_up(600);
    assert_eq!(node.downs(), 0, "{}", node.log());
    // A state is reported again only for a check that was taken away in between.
    let records = node.reported();
    let reports = |number| {
        records
            .iter()
            .filter(move |r| r.key.to_string() == key(number))
            .count()
    };
    let wrong: Vec<_> = (1..=300)
        .map(|number| (number, reports(number)))
        .filter(|(_, count)| *count != 1)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}\n{}", node.log());
}

#[test]
fn kills_without_end_turn_nothing_down() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let checks: Vec<_> = (1..=200)
        .map(|i| http(&key(i), server.address, 1))
        .collect();
    node.write(&checks);
    node.start();
    node.wait_all_up(checks.len());
    for round in 0..15 {
        node.kill();
        node.start();
        pause(Duration::from_millis(30 + 70 * (round % 4)));
        if let Some(snapshot) = node.snapshot() {
            let mut states = snapshot.records.iter().map(|r| r.state);
            assert!(states.all(|state| state == State::Up), "round {round}");
        }
    }
    node.wait_all_up(checks.len());
    assert_eq!(node.downs(), 0);
}

#[test]
fn shortage_of_descriptors_turns_nothing_down() {
    let mut node = Node::new();
    // Keeps connections for long enough that many are wanted at a time.
    let server = Server::start(fine_after(Duration::from_millis(200)));
    let checks: Vec<_> = (1..=300)
        .map(|i| with_timeout(http(&key(i), server.address, 1), 10))
        .collect();
    node.write(&checks);
    let mut program = Command::new("prlimit");
    program.args(["--nofile=130:130", PROGRAM]);
    node.launch(&mut program);
    node.wait_all_up(checks.len());
    // Now somebody takes them away below what the program has counted on.
    let id = node.child.as_ref().unwrap().id().to_string();
    let lowered = Command::new("prlimit")
        .args(["--pid", &id, "--nofile=60:130"])
        .status()
        .unwrap();
    assert!(lowered.success());
    // More than the timeout: whoever waits for a descriptor until then is not down.
    pause(Duration::from_secs(12));
    assert_eq!(node.downs(), 0, "{}", node.log());
    assert!(node.log().contains("short of something"), "{}", node.log());
}

#[test]
fn more_than_the_node_can_do_stretches_intervals_and_says_so() {
    let mut node = Node::new();
    let server = Server::start(fine_after(Duration::from_millis(400)));
    // 60 probes a second of 0.4 s each want 24 at a time.
    let checks: Vec<_> = (1..=60).map(|i| http(&key(i), server.address, 1)).collect();
    node.write(&checks);
    let socket = node.folder.path().join("socket");
    let mut program = Command::new("env");
    program
        .args(["OCTAVIA_XDP_HC_MAX_IN_FLIGHT=8", "OCTAVIA_XDP_HC_THREADS=1"])
        .arg(format!("OCTAVIA_XDP_HC_SOCKET={}", socket.display()))
        .arg(PROGRAM);
    node.launch(&mut program);
    node.wait("stretch", || {
        node.snapshot().is_some_and(|s| s.stretch_percent >= 250)
    });
    assert!(node.log().contains("cannot keep up"), "{}", node.log());
    let status = Command::new(PROGRAM)
        .args(["status", "--socket"])
        .arg(&socket)
        .output()
        .unwrap();
    let text = String::from_utf8(status.stdout).unwrap();
    assert!(text.contains("OVERLOADED"), "{text}");
    assert_eq!(node.downs(), 0);

    // Less to do: intervals are whole again, step by step. Enough checks are left for
    // several starts in a window, of which the least late one counts. How short they
    // get depends on what else this machine does.
    let left = 12;
    let longest = node.snapshot().unwrap().stretch_percent;
    node.write(&checks[..left]);
    node.wait("shorter intervals", || {
        node.snapshot()
            .is_some_and(|s| s.records.len() == left && s.stretch_percent < longest)
    });
    assert_eq!(node.downs(), 0, "{}", node.log());
}
