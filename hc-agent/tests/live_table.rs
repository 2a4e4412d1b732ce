// SPDX-License-Identifier: Apache-2.0
//! The live table of a running checker.

use std::process::Command;

use octavia_xdp_hc::state::State;
use serde_json::Value;

use crate::support::documents::{http, key};
use crate::support::node::{Node, PROGRAM, output};
use crate::support::server::{FINE, Server, nobody};

#[test]
fn the_live_table_shows_results_and_times() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let bad = http(&key(2), nobody(), 3);
    node.write(&[http(&key(1), server.address, 1), bad]);
    let socket = node.folder.path().join("socket");
    let mut program = Command::new("env");
    program
        .arg(format!("OCTAVIA_XDP_HC_SOCKET={}", socket.display()))
        .arg(PROGRAM);
    node.launch(&mut program);
    node.wait_state(&key(2), State::Down);
    let status = |more: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["status", "--socket"]).arg(&socket);
        output(&mut command, more).1
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
