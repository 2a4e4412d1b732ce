// SPDX-License-Identifier: Apache-2.0
//! The program short of time and descriptors, reloaded and killed while it works: it
//! never turns down what is up.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use common::node::{Node, PROGRAM, now, pause};
use common::{FINE, Habit, Server};
use octavia_xdp_hc::queue::format::Record;
use octavia_xdp_hc::state::State;
use rustix::process::Signal;
use serde_json::{Value, json};

fn key(number: usize) -> String {
    format!("{number:016x}")
}

fn http(number: usize, target: SocketAddr) -> Value {
    json!({
        "key": key(number), "type": "http", "address": target.ip().to_string(),
        "port": target.port(), "delay": 1, "timeout": 1, "rise": 1, "fall": 1,
        "http": {
            "method": "GET", "path": "/", "version": "1.0", "host": null,
            "expected_codes": [[200, 299]],
        },
    })
}

fn records(node: &Node) -> Vec<Record> {
    node.deltas().into_iter().flat_map(|d| d.records).collect()
}

fn downs(node: &Node) -> usize {
    let records = records(node);
    records.iter().filter(|r| r.state == State::Down).count()
}

fn wait_all_up(node: &Node, number: usize) {
    node.wait("all up", || {
        node.snapshot().is_some_and(|s| {
            s.records.len() == number
                && s.records.iter().all(|r| r.state == State::Up && r.verified)
        })
    });
}

#[test]
fn ten_seconds_of_stop_turn_nothing_down() {
    let mut node = Node::new();
    // Answers well within the timeout, but not if most of it is gone.
    let late = Habit::SayLate("HTTP/1.0 200 OK\r\n\r\n", Duration::from_millis(300));
    let server = Server::start(late);
    let checks: Vec<_> = (1..200).map(|i| http(i, server.address)).collect();
    node.write(&checks);
    node.start();
    wait_all_up(&node, checks.len());
    let before = downs(&node);
    node.signal(Signal::STOP);
    pause(Duration::from_secs(10));
    node.signal(Signal::CONT);
    pause(Duration::from_secs(3));
    assert_eq!(downs(&node), before, "{}", node.log());
}

#[test]
fn reloads_under_load_change_nothing_that_stays() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let all: Vec<_> = (1..=600).map(|i| http(i, server.address)).collect();
    node.write(&all[..300]);
    node.start();
    wait_all_up(&node, 300);
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
    wait_all_up(&node, 600);
    assert_eq!(downs(&node), 0, "{}", node.log());
    // A state is told again only for a check that was taken away in between.
    let records = records(&node);
    let told = |number| {
        records
            .iter()
            .filter(move |r| r.key.to_string() == key(number))
    };
    assert!((1..=300).all(|number| told(number).count() == 1));
}

#[test]
fn kills_without_end_turn_nothing_down() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let checks: Vec<_> = (1..=200).map(|i| http(i, server.address)).collect();
    node.write(&checks);
    node.start();
    wait_all_up(&node, checks.len());
    for round in 0..15 {
        node.kill();
        node.start();
        pause(Duration::from_millis(30 + 70 * (round % 4)));
        if let Some(snapshot) = node.snapshot() {
            let mut states = snapshot.records.iter().map(|r| r.state);
            assert!(states.all(|state| state == State::Up), "round {round}");
        }
    }
    wait_all_up(&node, checks.len());
    assert_eq!(downs(&node), 0);
}

#[test]
fn want_of_descriptors_turns_nothing_down() {
    let mut node = Node::new();
    // Keeps connections for long enough that many are wanted at a time.
    let late = Habit::SayLate("HTTP/1.0 200 OK\r\n\r\n", Duration::from_millis(200));
    let server = Server::start(late);
    let checks: Vec<_> = (1..=300).map(|i| http(i, server.address)).collect();
    node.write(&checks);
    let mut program = Command::new("prlimit");
    program.args(["--nofile=130:130", PROGRAM]);
    node.launch(&mut program);
    wait_all_up(&node, checks.len());
    // Now somebody takes them away below what the program has counted on.
    let id = node.child.as_ref().unwrap().id().to_string();
    let lowered = Command::new("prlimit")
        .args(["--pid", &id, "--nofile=60:130"])
        .status()
        .unwrap();
    assert!(lowered.success());
    pause(Duration::from_secs(4));
    assert_eq!(downs(&node), 0, "{}", node.log());
    assert!(node.log().contains("short of something"), "{}", node.log());
}

#[test]
fn more_than_the_node_can_do_stretches_intervals_and_says_so() {
    let mut node = Node::new();
    let late = Habit::SayLate("HTTP/1.0 200 OK\r\n\r\n", Duration::from_millis(400));
    let server = Server::start(late);
    // 60 probes a second of 0.4 s each want 24 at a time.
    let checks: Vec<_> = (1..=60).map(|i| http(i, server.address)).collect();
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
    assert_eq!(downs(&node), 0);

    // Less to do: intervals are whole again, step by step.
    node.write(&checks[..4]);
    node.wait("shorter intervals", || {
        node.snapshot()
            .is_some_and(|s| s.records.len() == 4 && s.stretch_percent < 250)
    });
    assert_eq!(downs(&node), 0, "{}", node.log());
}

#[test]
fn conditions_and_panic_reach_the_queue() {
    let mut node = Node::new();
    let fine = Server::start(FINE);
    let other = Server::start(FINE);
    let third = Server::start(FINE);
    let checks = [
        http(1, fine.address),
        http(2, other.address),
        http(3, third.address),
    ];
    let write = |percent: u8| {
        let document = json!({
            "version": 1, "checks": checks,
            "conditions": [{"key": key(9), "checks": [key(1), key(2)]}],
            "groups": [{
                "name": "pool", "checks": [key(3), key(9)], "panic_percent": percent,
            }],
        });
        let temporary = node.folder.path().join(".tmp-checks");
        fs::write(&temporary, document.to_string()).unwrap();
        fs::rename(temporary, node.checks_file()).unwrap();
    };
    write(60);
    let mut program = Command::new(PROGRAM);
    let path = node.checks_file();
    node.launch(&mut program);
    node.wait_state(&key(9), State::Up);
    node.wait_state(&key(3), State::Up);
    drop(other);
    node.wait_state(&key(2), State::Down);
    node.wait("panic", || node.log().contains("panic: too many are down"));
    assert_eq!(node.state(&key(9)), Some((State::Up, true)), "withheld");

    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("\"panic_percent\":60", "\"panic_percent\":50"),
    )
    .unwrap();
    node.wait_state(&key(9), State::Down);
    assert!(node.log().contains("panic is over"));
}

#[test]
fn the_live_table_shows_results_and_times() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let mut bad = http(2, common::nobody());
    bad["fall"] = json!(3);
    node.write(&[http(1, server.address), bad]);
    let socket = node.folder.path().join("socket");
    let mut program = Command::new("env");
    program
        .arg(format!("OCTAVIA_XDP_HC_SOCKET={}", socket.display()))
        .arg(PROGRAM);
    node.launch(&mut program);
    node.wait_state(&key(2), State::Down);
    let status = |more: &[&str]| {
        let output = Command::new(PROGRAM)
            .args(["status", "--socket"])
            .arg(&socket)
            .args(more)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = status(&["--problems"]);
    assert!(text.contains("---") && text.contains("refused"), "{text}");
    assert!(!text.contains(&key(1)), "{text}");
    let lines: Vec<Value> = status(&["--json"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines
            .iter()
            .any(|l| l["key"] == key(1) && l["state"] == "up")
    );
}
