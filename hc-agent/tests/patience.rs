// SPDX-License-Identifier: Apache-2.0
//! A member that moves: its server is away for longer than its thresholds allow.

use std::fs;
use std::time::Duration;

use octavia_xdp_hc::state::State;
use serde_json::{Value, json};

use crate::support::documents::{A, B, tcp};
use crate::support::node::{Node, now, pause};
use crate::support::server::{FINE, Server};

/// Longer than anything here takes.
const LONG_S: u64 = 3600;

fn document(checks: &[Value], moving: &[&str], seconds: u64) -> Value {
    json!({
        "version": 1, "checks": checks,
        "patience": [{"seconds": seconds, "checks": moving}],
    })
}

#[test]
fn a_member_that_moves_stays_up_while_it_is_away_and_another_goes_down() {
    let mut node = Node::new();
    let (moving, other) = (Server::start(FINE), Server::start(FINE));
    let target = moving.address;
    let checks = [tcp(A, target, 1), tcp(B, other.address, 1)];
    node.write_document(&document(&checks, &[A], LONG_S));
    node.start();
    node.wait_all_up(2);
    drop((moving, other));
    node.wait_state(B, State::Down);
    // Nor does a checker that was killed report it down.
    node.kill();
    let boot = node.snapshot().unwrap().boot;
    node.start();
    node.wait("snapshot", || {
        node.snapshot().is_some_and(|s| s.boot > boot)
    });
    node.wait_state(B, State::Down);
    pause(Duration::from_secs(3));
    assert_eq!(node.state(A), Some((State::Up, false)));
    let _there = Server::at(target, FINE);
    node.wait_state(A, State::Up);
    let key = A.parse().unwrap();
    assert!(
        node.reported()
            .iter()
            .all(|record| record.key != key || record.state == State::Up)
    );
}

#[test]
fn one_that_is_dead_goes_down_when_patience_with_it_is_over() {
    const PATIENCE_S: u64 = 4;
    let mut node = Node::new();
    let server = Server::start(FINE);
    let checks = [tcp(A, server.address, 1)];
    node.write_document(&document(&checks, &[A], PATIENCE_S));
    node.start();
    node.wait_all_up(1);
    let died = now();
    drop(server);
    node.wait_state(A, State::Down);
    assert!(now() - died >= Duration::from_secs(PATIENCE_S - 1));
}

#[test]
fn one_that_has_not_come_goes_down_when_it_is_not_said_to_move_any_more() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let checks = [tcp(A, server.address, 1)];
    fs::create_dir(node.checks_file()).unwrap();
    // If one of two load balancers says that the member moves, it moves.
    let moving = document(&checks, &[A], LONG_S);
    let still = json!({"version": 1, "checks": checks});
    node.write_in_directory("one.json", &moving);
    node.write_in_directory("two.json", &still);
    node.start();
    node.wait_all_up(1);
    drop(server);
    pause(Duration::from_secs(3));
    assert_eq!(node.state(A), Some((State::Up, true)));
    node.write_in_directory("one.json", &still);
    node.wait_state(A, State::Down);
}
