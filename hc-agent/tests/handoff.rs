// SPDX-License-Identifier: Apache-2.0
//! The hand-off with a reader that follows the rules of the document, both sides
//! killed at random: no server that is up is ever reported down, and in the end the
//! reader knows what is true.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use octavia_xdp_hc::queue::directory::read_snapshot;
use octavia_xdp_hc::queue::format::{QueueFile, Record, decode};
use octavia_xdp_hc::state::State;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::documents::tcp;
use crate::support::node::{Node, PATIENCE, now, pause};
use crate::support::random::Random;
use crate::support::server::{FINE, Server};

const CHECKS: u64 = 24;

/// The other side, after `result-queue.rst`. Its table outlives its own death.
#[derive(Default)]
struct Reader {
    table: BTreeMap<u64, State>,
    /// Boot and last sequence that is applied.
    position: (u64, u64),
    /// A snapshot that reaches so far must be applied, as deltas were missed.
    missing: Option<(u64, u64)>,
    false_downs: Vec<Record>,
}

impl Reader {
    /// Die: what was not applied is forgotten.
    fn forget(&mut self) {
        self.position = (0, 0);
        self.missing = Some((0, 0));
    }

    fn take(&mut self, record: &Record) {
        let key = record.key.get();
        let known = self.table.get(&key).is_some_and(|s| *s != State::Unknown);
        if record.state == State::Unknown || (known && !record.verified) {
            return;
        }
        if record.state == State::Down && is_steady(key) {
            self.false_downs.push(*record);
        }
        self.table.insert(key, record.state);
    }

    fn take_delta(&mut self, delta: &QueueFile) {
        for record in &delta.records {
            if (delta.boot, record.sequence) > self.position {
                self.take(record);
            }
        }
        self.position = (delta.boot, delta.last_sequence);
    }

    /// Look once, perhaps dying before the files are removed.
    fn look(&mut self, node: &Node, dies: bool) {
        let paths = node.delta_paths();
        for path in &paths {
            // A whole file, or nothing: that is the promise of the rename.
            let delta = decode(&fs::read(path).unwrap()).unwrap();
            let (boot, sequence) = self.position;
            if delta.boot != boot || delta.first_sequence > sequence + 1 {
                let before = (delta.boot, delta.first_sequence - 1);
                self.missing = self.missing.max(Some(before));
            }
            if self.missing.is_some() {
                self.load(node);
            }
            if (delta.boot, delta.last_sequence) > self.position {
                self.take_delta(&delta);
            }
            if !dies {
                fs::remove_file(path).unwrap();
            }
        }
        if paths.is_empty() {
            self.load(node);
        }
        if dies {
            self.forget();
        }
    }

    /// Take a snapshot that is not older than what is applied. All of it: it may hold
    /// what deltas said that were missed.
    fn load(&mut self, node: &Node) {
        let Ok(snapshot) = read_snapshot(&node.queue) else {
            return;
        };
        let snapshot = snapshot.unwrap();
        let position = (snapshot.boot, snapshot.last_sequence);
        if position < self.position {
            return;
        }
        for record in &snapshot.records {
            self.take(record);
        }
        self.missing = self.missing.filter(|missing| position < *missing);
        self.position = position;
    }
}

/// Every third server is up all the time.
fn is_steady(key: u64) -> bool {
    key.is_multiple_of(3)
}

/// Servers that come and go, each at its address.
struct Servers(BTreeMap<u64, (SocketAddr, Option<Server>)>);

impl Servers {
    fn start() -> Self {
        let all = (1..=CHECKS).map(|key| {
            let server = Server::start(FINE);
            (key, (server.address, Some(server)))
        });
        Self(all.collect())
    }

    fn flip(&mut self, random: &mut Random) {
        let key = 1 + random.below(CHECKS);
        let (address, server) = self.0.get_mut(&key).unwrap();
        if !is_steady(key) {
            *server = match server.take() {
                Some(_) => None,
                None => Some(Server::at(*address, FINE)),
            };
        }
    }

    fn truth(&self) -> BTreeMap<u64, State> {
        let state = |up| if up { State::Up } else { State::Down };
        let all = self.0.iter();
        all.map(|(key, (_, server))| (*key, state(server.is_some())))
            .collect()
    }

    fn checks(&self) -> Vec<Value> {
        let check = |(key, (address, _)): (&u64, &(SocketAddr, _))| {
            tcp(&format!("{key:016x}"), *address, 1)
        };
        self.0.iter().map(check).collect()
    }
}

fn converge(node: &Node, reader: &mut Reader, servers: &Servers) {
    let end = now() + PATIENCE;
    while reader.table != servers.truth() {
        assert!(
            now() < end,
            "{:?} is not {:?}\n{}",
            reader.table,
            servers.truth(),
            node.log()
        );
        reader.look(node, false);
        pause(Duration::from_millis(20));
    }
    assert!(reader.false_downs.is_empty(), "{:?}", reader.false_downs);
}

fn start() -> (Node, Reader, Servers) {
    let mut node = Node::new();
    let servers = Servers::start();
    node.write(&servers.checks());
    node.start();
    let mut reader = Reader::default();
    reader.forget();
    converge(&node, &mut reader, &servers);
    (node, reader, servers)
}

#[test]
fn kills_of_both_sides_end_with_the_truth_and_without_a_false_down() {
    let (mut node, mut reader, mut servers) = start();
    let mut random = Random(5);
    for _ in 0..8 {
        for _ in 0..random.below(12) {
            servers.flip(&mut random);
            pause(Duration::from_millis(random.below(300)));
            match random.below(4) {
                0 => {
                    node.kill();
                    pause(Duration::from_millis(random.below(300)));
                    node.start();
                }
                1 => reader.look(&node, true),
                2 => reader.look(&node, false),
                _ => {}
            }
        }
        converge(&node, &mut reader, &servers);
    }
}

#[test]
fn states_converge_after_a_clock_that_went_back() {
    let (mut node, mut reader, mut servers) = start();
    node.kill();
    // The last run seems to have been a year in the future.
    let mut snapshot = node.snapshot().unwrap();
    snapshot.header.boot += 365 * 86400 * 1_000_000_000;
    snapshot.header.stretch_percent = 0;
    fs::write(node.queue.join("snapshot"), snapshot.encode()).unwrap();
    reader.look(&node, false);
    let mut random = Random(7);
    for _ in 0..8 {
        servers.flip(&mut random);
    }
    node.start();
    converge(&node, &mut reader, &servers);
    node.wait("snapshot", || {
        node.snapshot().is_some_and(|s| s.boot > snapshot.boot)
    });
}

#[test]
fn states_converge_after_ten_seconds_of_stop() {
    let (node, mut reader, mut servers) = start();
    let mut random = Random(6);
    node.signal(Signal::STOP);
    pause(Duration::from_secs(10));
    node.signal(Signal::CONT);
    converge(&node, &mut reader, &servers);
    for _ in 0..3 {
        node.signal(Signal::STOP);
        servers.flip(&mut random);
        pause(Duration::from_millis(1500));
        node.signal(Signal::CONT);
        pause(Duration::from_millis(random.below(500)));
    }
    converge(&node, &mut reader, &servers);
}
