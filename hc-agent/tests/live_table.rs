// SPDX-License-Identifier: Apache-2.0
//! The live table of a running checker.

use std::path::{Path, PathBuf};
use std::process::Command;

use octavia_xdp_hc::state::State;
use serde_json::{Value, json};

use crate::support::documents::{http, key};
use crate::support::node::{Node, PROGRAM, output};
use crate::support::server::{FINE, Server, nobody};

/// Start the node's checker; returns where its live table is.
fn launch(node: &mut Node) -> PathBuf {
    let socket = node.folder.path().join("socket");
    let mut program = Command::new("env");
    program
        .arg(format!("OCTAVIA_XDP_HC_SOCKET={}", socket.display()))
        .arg(PROGRAM);
    node.launch(&mut program);
    socket
}

/// Whether it could be shown, and the text.
fn status(socket: &Path, more: &[&str]) -> (bool, String) {
    let mut command = Command::new(PROGRAM);
    command.args(["status", "--socket"]).arg(socket);
    output(&mut command, more)
}

#[test]
fn the_live_table_shows_results_and_times() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let bad = http(&key(2), nobody(), 3);
    node.write(&[http(&key(1), server.address, 1), bad]);
    let socket = launch(&mut node);
    node.wait_state(&key(2), State::Down);
    let (_, text) = status(&socket, &["--problems"]);
    assert!(text.contains("---") && text.contains("refused"), "{text}");
    assert!(!text.contains(&key(1)), "{text}");
    let lines: Vec<Value> = status(&socket, &["--json"])
        .1
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

#[test]
fn checks_of_members_that_are_moving_are_counted() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let checks = [http(&key(1), server.address, 1)];
    node.write_document(&json!({
        "version": 1, "checks": checks,
        "patience": [{"seconds": 30, "checks": [key(1)]}],
    }));
    let socket = launch(&mut node);
    node.wait("count", || {
        let (_, text) = status(&socket, &[]);
        text.contains("1 checks of members that are moving")
    });
    node.write(&checks);
    node.wait("end of it", || {
        let (fine, text) = status(&socket, &[]);
        fine && !text.contains("moving")
    });
}
