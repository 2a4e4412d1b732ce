// SPDX-License-Identifier: Apache-2.0
//! The program as it runs on a node: checks file in, result queue out, killed, stopped
//! and starved in between.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use octavia_xdp_hc::queue::directory::{delta_name, read_snapshot};
use octavia_xdp_hc::queue::format::{FileKind, Header, Record, encode};
use octavia_xdp_hc::reason::Reason;
use octavia_xdp_hc::state::State;
use rustix::process::Signal;

use crate::support::documents::{A, B, http, key, tcp, with_timeout};
use crate::support::node::{Node, PROGRAM, now, output, pause};
use crate::support::server::{Behaviour, FINE, SILENT, Server, Then, fine_after, nobody};

#[test]
fn a_killed_listener_goes_down_after_fall_failures_and_comes_back() {
    let mut node = Node::new();
    let server = Server::start(SILENT);
    let target = server.address;
    node.write(&[tcp(A, target, 3)]);
    node.start();
    node.wait_state(A, State::Up);
    assert_eq!(node.deltas().len(), 1);

    let killed = now();
    drop(server);
    node.wait_state(A, State::Down);
    assert!(
        now() - killed > Duration::from_millis(1900),
        "too early for three"
    );
    assert_eq!(node.record(A).unwrap().reason, Reason::REFUSED);

    let _server = Server::at(target, SILENT);
    node.wait_state(A, State::Up);
    node.terminate();
    let sequences: Vec<_> = node.deltas().iter().map(|d| d.first_sequence).collect();
    assert_eq!(sequences, [1, 2, 3], "changes only");
    assert_eq!(node.snapshot().unwrap().last_sequence, 3);
    assert!(node.log().contains("connection refused"));
}

#[test]
fn http_reasons_reach_the_queue() {
    let mut node = Node::new();
    let busy = Server::start(Behaviour::Plain(Then::Say(b"HTTP/1.1 503 Busy\r\n\r\n")));
    let fine = Server::start(FINE);
    node.write(&[http(A, busy.address, 2), http(B, fine.address, 2)]);
    node.start();
    node.wait_state(A, State::Down);
    node.wait_state(B, State::Up);
    let record = node.record(A).unwrap();
    assert_eq!((record.reason, record.detail), (Reason::BAD_STATUS, 503));
    assert_eq!(node.record(B).unwrap().detail, 200);
}

#[test]
fn states_survive_a_kill_and_a_restart() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let target = server.address;
    node.write(&[http(A, target, 2)]);
    node.start();
    node.wait_state(A, State::Up);
    let boot = node.snapshot().unwrap().boot;
    node.kill();

    // The server is gone: the state stays until `fall` failures of the new run.
    drop(server);
    node.start();
    node.wait("snapshot", || {
        node.snapshot().is_some_and(|s| s.boot > boot)
    });
    assert_eq!(node.state(A), Some((State::Up, false)));
    node.wait_state(A, State::Down);
    node.terminate();

    // The other way round, and a restart that changes nothing is reported once.
    let boot = node.snapshot().unwrap().boot;
    node.start();
    node.wait("verdict", || {
        node.snapshot().is_some_and(|s| s.boot > boot)
            && node.state(A) == Some((State::Down, true))
    });
    let _server = Server::at(target, FINE);
    node.wait_state(A, State::Up);
    let last = node.deltas().into_iter().filter(|d| d.boot > boot);
    let states: Vec<_> = last.flat_map(|d| d.records).map(|r| r.state).collect();
    assert_eq!(states, [State::Down, State::Up]);
}

#[test]
fn kills_at_any_time_leave_whole_files_only() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let checks: Vec<_> = (1..400)
        .map(|i| tcp(&format!("{i:016x}"), server.address, 1))
        .collect();
    node.write(&checks);
    for round in 0..12 {
        node.start();
        pause(Duration::from_millis(20 + 50 * round));
        node.kill();
        node.deltas();
        if node.queue.join("snapshot").exists() {
            read_snapshot(&node.queue).unwrap().unwrap();
        }
    }
    node.start();
    node.wait("verified states", || {
        node.snapshot().is_some_and(|snapshot| {
            snapshot.records.len() == checks.len()
                && snapshot
                    .records
                    .iter()
                    .all(|r| r.state == State::Up && r.verified)
        })
    });
}

#[test]
fn a_torn_snapshot_is_set_aside() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    let record = Record {
        key: A.parse().unwrap(),
        sequence: 1,
        time_ns: 1,
        state: State::Down,
        reason: Reason::REFUSED,
        verified: true,
        detail: 0,
    };
    let header = Header {
        kind: FileKind::Snapshot,
        boot: 1,
        first_sequence: 0,
        last_sequence: 1,
        stretch_percent: 0,
    };
    let data = encode(header, [record].into_iter());
    fs::write(node.queue.join("snapshot"), &data[..70]).unwrap();
    node.write(&[http(A, server.address, 2)]);
    node.start();
    node.wait_state(A, State::Up);
    assert!(node.queue.join("rejected/snapshot.reason").exists());
    assert!(
        node.log().contains("starting from unknown"),
        "{}",
        node.log()
    );
}

#[test]
fn a_stopped_process_reports_nothing_down() {
    let mut node = Node::new();
    // Answers well within the timeout, but not if most of it is gone.
    let server = Server::start(fine_after(Duration::from_secs(1)));
    let checks: Vec<_> = (1..50)
        .map(|i| with_timeout(http(&key(i), server.address, 1), 4))
        .collect();
    node.write(&checks);
    node.start();
    let all_up = || {
        node.snapshot().is_some_and(|s| {
            s.records.len() == checks.len()
                && s.records.iter().all(|r| r.state == State::Up)
        })
    };
    node.wait("states", all_up);
    for _ in 0..3 {
        node.signal(Signal::STOP);
        pause(Duration::from_millis(4500));
        node.signal(Signal::CONT);
        pause(Duration::from_millis(1500));
    }
    let downs = node
        .deltas()
        .iter()
        .flat_map(|d| d.records.clone())
        .any(|r| r.state == State::Down);
    assert!(!downs, "{}", node.log());
}

#[test]
fn a_full_queue_loses_no_change() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    node.write(&[http(A, server.address, 2)]);
    // The small file system is seen by the program alone, and goes with it.
    let script = "mount -t tmpfs -o size=16k tmpfs \"$0\" && exec \"$@\"";
    let allowed = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(&node.queue)
        .arg("true")
        .stderr(Stdio::null())
        .status();
    if !allowed.is_ok_and(|status| status.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: mounting is not allowed");
        return;
    }
    let mut program = Command::new("unshare");
    program
        .args(["--mount", "sh", "-c", script])
        .arg(&node.queue)
        .arg(PROGRAM);
    node.launch(&mut program);
    let id = node.child.as_ref().unwrap().id();
    let outside = node.queue.strip_prefix("/").unwrap();
    node.queue = Path::new("/proc")
        .join(id.to_string())
        .join("root")
        .join(outside);
    node.wait_state(A, State::Up);

    let filler = node.queue.join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while file.write(&[0; 512]).is_ok_and(|n| n > 0) {}
    drop(server);
    node.wait_logged("cannot write");
    assert_eq!(node.deltas().len(), 1, "nothing short was renamed");
    assert_eq!(node.state(A), Some((State::Up, true)));

    drop(file);
    fs::remove_file(filler).unwrap();
    node.wait_state(A, State::Down);
    let deltas = node.deltas();
    assert_eq!(deltas.len(), 2);
    let last = &deltas[1];
    assert_eq!(last.first_sequence, 2);
    assert!(node.queue.join(delta_name(last.boot, 2)).exists());
}

#[test]
fn commands_say_what_the_checker_knows_and_would_do() {
    let mut node = Node::new();
    let server = Server::start(FINE);
    node.write(&[http(A, server.address, 2)]);
    node.start();
    node.wait_state(A, State::Up);
    let run = |arguments: &[&str]| output(&mut Command::new(PROGRAM), arguments);
    let (queue, checks) = (node.queue.to_str().unwrap(), node.checks_file());
    let checks = checks.to_str().unwrap();
    let (fine, text) = run(&["status", "--queue", queue, "--checks", checks]);
    assert!(fine && text.contains(A) && text.contains("up"), "{text}");
    assert!(text.contains(&server.address.to_string()), "{text}");

    let (fine, text) = run(&["check-config", checks]);
    assert!(fine && text.contains("1 checks"), "{text}");
    // Also where there are fewer checks than threads.
    let (fine, text) = run(&["burst", "--checks", checks, "--threads", "3"]);
    assert!(fine && text.contains(r#""failures":0"#), "{text}");
    fs::write(checks, r#"{"version": 1, "checks": 7}"#).unwrap();
    let (fine, text) = run(&["check-config", checks]);
    assert!(!fine && text.contains("checks"), "{text}");

    let probe = |kind: &str, target: SocketAddr| {
        let (host, port) = (target.ip().to_string(), target.port().to_string());
        run(&["probe", kind, &host, &port])
    };
    let (fine, text) = probe("http", server.address);
    assert!(fine && text.contains("status 200"), "{text}");
    let (fine, text) = probe("tcp", nobody());
    assert!(!fine && text.contains("refused"), "{text}");
}
