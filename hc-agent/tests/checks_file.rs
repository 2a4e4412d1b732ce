// SPDX-License-Identifier: Apache-2.0
//! The program's reaction to a checks file that is replaced, malformed or absent.

use std::fs;
use std::sync::atomic::Ordering;

use octavia_xdp_hc::state::State;
use rustix::process::Signal;
use serde_json::json;

use crate::support::documents::{A, B, http, key, tcp};
use crate::support::node::Node;
use crate::support::server::{FINE, SILENT, Server, nobody};

#[test]
fn a_reload_touches_what_differs_only() {
    let mut node = Node::new();
    let kept = Server::start(FINE);
    let other = Server::start(SILENT);
    let mut slow = http(A, kept.address, 2);
    slow["delay"] = json!(3600);
    node.write(&[slow.clone()]);
    node.start();
    node.wait_state(A, State::Up);

    node.write(&[slow.clone(), tcp(B, other.address, 2)]);
    node.wait_state(B, State::Up);
    assert_eq!(kept.connections.load(Ordering::Relaxed), 1);

    // A bad file changes nothing, and the log says which field is bad.
    let mut bad = tcp(B, other.address, 2);
    bad["port"] = json!(0);
    node.write(&[bad]);
    node.wait_logged("checks[0].port");
    assert_eq!(node.snapshot().unwrap().records.len(), 2);

    node.write(&[slow]);
    node.wait("removal", || node.state(B).is_none());
    assert_eq!(node.state(A), Some((State::Up, true)));
}

#[test]
fn no_checks_file_yet_keeps_the_states() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    node.write(&[http(A, server.address, 2)]);
    node.start();
    node.wait_state(A, State::Up);
    node.terminate();

    fs::remove_file(node.checks_file()).unwrap();
    node.start();
    node.wait_logged("no checks file");
    node.terminate();
    assert_eq!(node.state(A), Some((State::Up, false)));
}

#[test]
fn sighup_reads_the_file_again() {
    let mut node = Node::new();
    fs::write(node.checks_file(), "{").unwrap();
    node.start();
    let refusals = || node.log().matches("checks file refused").count();
    node.wait("refusal", || refusals() == 1);
    node.signal(Signal::HUP);
    node.wait("second refusal", || refusals() == 2);
}

#[test]
fn conditions_and_panic_reach_the_queue() {
    let mut node = Node::new();
    let fine = Server::start(FINE);
    let other = Server::start(FINE);
    let third = Server::start(FINE);
    let checks = [
        http(&key(1), fine.address, 1),
        http(&key(2), other.address, 1),
        http(&key(3), third.address, 1),
    ];
    let write = |percent: u8| {
        let document = json!({
            "version": 1, "checks": checks,
            "conditions": [{"key": key(9), "checks": [key(1), key(2)]}],
            "groups": [{
                "name": "pool", "checks": [key(3), key(9)], "panic_percent": percent,
            }],
        });
        node.write_document(&document);
    };
    write(60);
    node.start();
    node.wait_state(&key(9), State::Up);
    node.wait_state(&key(3), State::Up);
    drop(other);
    node.wait_state(&key(2), State::Down);
    node.wait_logged("panic: too many are down");
    assert_eq!(node.state(&key(9)), Some((State::Up, true)), "withheld");

    // In place, not by a rename: that is noticed as well.
    let path = node.checks_file();
    let text = fs::read_to_string(&path).unwrap();
    let percent = |number: u8| format!("\"panic_percent\":{number}");
    fs::write(&path, text.replace(&percent(60), &percent(50))).unwrap();
    node.wait_state(&key(9), State::Down);
    assert!(node.log().contains("panic is over"));
}

#[test]
fn a_file_that_vanishes_is_logged_once_and_probing_goes_on() {
    const MISSING: &str = "there is no checks file";
    let mut node = Node::new();
    let server = Server::start(FINE);
    let target = server.address;
    node.write(&[http(A, target, 1)]);
    node.start();
    node.wait_state(A, State::Up);

    fs::remove_file(node.checks_file()).unwrap();
    node.wait_logged(MISSING);
    // Known checks are probed as before.
    drop(server);
    node.wait_state(A, State::Down);
    let server = Server::at(target, FINE);
    node.wait_state(A, State::Up);
    // However often it looks.
    node.signal(Signal::HUP);
    fs::write(node.folder.path().join("other"), "").unwrap();

    node.write(&[http(A, target, 1), tcp(B, nobody(), 1)]);
    node.wait_state(B, State::Down);
    assert_eq!(node.state(A), Some((State::Up, true)));
    let log = node.log();
    assert_eq!(log.matches(MISSING).count(), 1, "{log}");
    let back = log.matches("the checks file is there again").count();
    assert_eq!(back, 1, "{log}");

    // The next time it is said again.
    fs::remove_file(node.checks_file()).unwrap();
    node.wait("second line", || node.log().matches(MISSING).count() == 2);
    drop(server);
}

#[test]
fn a_malformed_file_takes_one_short_line_of_the_log() {
    let mut node = Node::new();
    let kind = format!("{}\n{}", "x".repeat(3000), "y".repeat(3000));
    node.write_document(&json!({"version": 1, "checks": [{"type": kind}]}));
    node.start();
    node.wait_logged("checks file refused");
    let log = node.log();
    let line = log.lines().find(|line| line.contains("refused")).unwrap();
    assert!(line.contains("checks[0].type"), "{line}");
    assert!(line.len() < 800, "{} bytes: {line}", line.len());
    assert!(!log.lines().any(|line| line.starts_with('y')), "{log}");
}

#[test]
fn files_of_a_directory_are_taken_each_for_itself() {
    let mut node = Node::new();
    let (first, second) = (Server::start(FINE), Server::start(FINE));
    let one = json!({"version": 1, "checks": [http(A, first.address, 1)]});
    let other = json!({"version": 1, "checks": [http(B, second.address, 1)]});
    // The directory comes after the checker.
    node.start();
    node.wait_logged("there is no checks file");
    fs::create_dir(node.checks_file()).unwrap();
    node.write_in_directory("one.json", &one);
    node.wait_state(A, State::Up);
    node.write_in_directory("other.json", &other);
    node.wait_state(B, State::Up);

    // One that is malformed keeps what it had, and stops no other.
    fs::write(node.checks_file().join("one.json"), "{").unwrap();
    node.wait_logged("one.json");
    drop(second);
    node.wait_state(B, State::Down);
    drop(first);
    node.wait_state(A, State::Down);

    fs::remove_file(node.checks_file().join("one.json")).unwrap();
    node.wait("removal", || node.state(A).is_none());
    assert_eq!(node.state(B), Some((State::Down, true)));

    // Without the directory, what is known is probed as before.
    fs::remove_file(node.checks_file().join("other.json")).unwrap();
    node.wait("removal", || node.state(B).is_none());
    node.write_in_directory("other.json", &other);
    node.wait("addition", || node.state(B).is_some());
    let missing = node.log().matches("there is no checks file").count();
    fs::rename(node.checks_file(), node.folder.path().join("away")).unwrap();
    node.wait("line", || {
        node.log().matches("there is no checks file").count() > missing
    });
    assert!(node.state(B).is_some());
}

#[test]
fn a_directory_in_place_of_the_one_file_of_before_keeps_the_states() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let mut slow = http(A, server.address, 2);
    slow["delay"] = json!(3600);
    node.write(&[slow.clone()]);
    node.start();
    node.wait_state(A, State::Up);
    node.terminate();

    fs::remove_file(node.checks_file()).unwrap();
    fs::create_dir(node.checks_file()).unwrap();
    let document = json!({"version": 1, "checks": [slow]});
    node.write_in_directory("lb.json", &document);
    drop(server);
    node.start();
    node.wait_logged("restored=1");
    assert_eq!(node.state(A), Some((State::Up, false)));
}
