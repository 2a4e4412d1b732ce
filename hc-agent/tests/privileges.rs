// SPDX-License-Identifier: Apache-2.0
//! Privileges that the program keeps, and its messages where it lacks them.

use std::fs;
use std::process::Command;

use octavia_xdp_hc::config::marks;
use octavia_xdp_hc::state::State;
use serde_json::{Value, json};

use crate::support::documents::{A, B, tcp};
use crate::support::node::{Node, PROGRAM, output};
use crate::support::server::{FINE, Server};

const NET_RAW: u64 = 1 << 13;

/// A check of type tcp, with a mark or without.
fn marked(key: &str, server: &Server, mark: Option<u32>) -> Value {
    let mut check = tcp(key, server.address, 1);
    if let Some(mark) = mark {
        check["mark"] = json!(mark);
    }
    check
}

/// The capabilities of every thread, in force or to be had.
fn capabilities(node: &Node) -> Vec<u64> {
    let id = node.child.as_ref().unwrap().id();
    let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let mut found = Vec::new();
    for task in tasks {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        for line in status.lines() {
            let sets = ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"];
            if let Some(set) = sets.iter().find_map(|set| line.strip_prefix(set)) {
                found.push(u64::from_str_radix(set.trim(), 16).unwrap());
            }
        }
    }
    found
}

fn may_mark() -> bool {
    let may = marks::error().is_none();
    if !may {
        eprintln!("skipped: marks cannot be set here; are you root?");
    }
    may
}

#[test]
fn without_marks_no_capability_stays() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    node.write(&[marked(A, &server, None)]);
    node.start();
    node.wait_state(A, State::Up);
    // Reading files of another user is all that root may keep.
    let sets = capabilities(&node);
    assert!(sets.iter().all(|set| set & !0b10 == 0), "{sets:x?}");

    // Marks that come later are refused by name, and what was goes on.
    node.write(&[marked(A, &server, None), marked(B, &server, Some(7))]);
    node.wait_logged("checks[1].mark: ");
    assert!(node.log().contains("--marks"), "{}", node.log());
    assert_eq!(node.state(B), None);
    node.terminate();
    if !may_mark() {
        return;
    }
    // The same file from the start is taken.
    node.start();
    node.wait_state(B, State::Up);
    let sets = capabilities(&node);
    assert!(sets.iter().all(|set| set & !(NET_RAW | 0b10) == 0));
    assert!(sets.iter().any(|set| set & NET_RAW != 0));
}

#[test]
fn marks_announced_at_the_start_are_taken_later() {
    if !may_mark() {
        return;
    }
    let mut node = Node::new();
    let server = Server::start(FINE);
    node.write(&[marked(A, &server, None)]);
    node.launch(Command::new(PROGRAM).env("OCTAVIA_XDP_HC_MARKS", "1"));
    node.wait_state(A, State::Up);
    node.write(&[marked(A, &server, Some(7))]);
    node.wait_state(A, State::Up);
    assert!(!node.log().contains("refused"), "{}", node.log());
}

#[test]
fn a_file_with_marks_is_refused_where_they_cannot_be_set() {
    let node = Node::new();
    let server = Server::start(FINE);
    node.write(&[marked(A, &server, Some(7))]);
    let path = node.checks_file();
    let (host, port) = (server.address.ip(), server.address.port());
    let (host, port) = (host.to_string(), port.to_string());
    let check = ["--check-config", path.to_str().unwrap()];
    let burst = ["burst", "--checks", path.to_str().unwrap()];
    let probe = ["probe", "tcp", &host, &port, "--mark", "7"];
    let unprivileged = || {
        if may_mark() {
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set=-net_raw,-net_admin", "--inh-caps=-all"]);
            command.arg(PROGRAM);
            command
        } else {
            Command::new(PROGRAM)
        }
    };
    for arguments in [&check[..], &burst[..]] {
        let (fine, text) = output(&mut unprivileged(), arguments);
        assert!(!fine && text.contains("checks[0].mark: "), "{text}");
        assert!(text.contains("CAP_NET_RAW"), "{text}");
    }
    let (fine, text) = output(&mut unprivileged(), &probe);
    assert!(!fine && text.contains("CAP_NET_RAW"), "{text}");
    if may_mark() {
        for arguments in [&check[..], &burst[..], &probe[..]] {
            let (fine, text) = output(&mut Command::new(PROGRAM), arguments);
            assert!(fine, "{text}");
        }
    }
}
