// SPDX-License-Identifier: Apache-2.0
//! The hand-off with a reader that follows the rules of the document, both sides
//! killed at random: no server that is up is ever reported down, and in the end the
//! reader knows what is true.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use common::node::{Node, now, pause};
use common::{FINE, Server};
use octavia_xdp_hc::queue::directory::read_snapshot;
use octavia_xdp_hc::queue::format::{Kind, QueueFile, Record, decode, encode};
use octavia_xdp_hc::state::State;
use rustix::process::Signal;
use serde_json::{Value, json};

const CHECKS: u64 = 24;
const PATIENCE: Duration = Duration::from_secs(20);

/// A linear congruential generator: the same test each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The other side, after `result-queue.rst`. Its table outlives its own death.
#[derive(Default)]
struct Reader {
    table: BTreeMap<u64, State>,
    position: (u64, u64),
    needs: bool,
    false_downs: Vec<Record>,
}

impl Reader {
    /// Die: what was not applied is forgotten.
    fn forget(&mut self) {
        self.position = (0, 0);
        self.needs = true;
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

    fn take_file(&mut self, file: &QueueFile) {
        for record in &file.records {
            if record.sequence == 0 || (file.boot, record.sequence) > self.position {
                self.take(record);
            }
        }
        self.position = (file.boot, file.last_sequence);
    }

    /// Look once, perhaps dying before the files are removed.
    fn look(&mut self, node: &Node, dies: bool) {
        let mut paths: Vec<_> = fs::read_dir(&node.queue)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "delta"))
            .collect();
        paths.sort();
        for path in &paths {
            // A whole file, or nothing: that is the promise of the rename.
            let delta = decode(&fs::read(path).unwrap()).unwrap();
            let (boot, sequence) = self.position;
            if delta.boot != boot || delta.first_sequence > sequence + 1 {
                self.needs = true;
            }
            if self.needs {
                self.load(node);
            }
            if (delta.boot, delta.last_sequence) > self.position {
                self.take_file(&delta);
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

    fn load(&mut self, node: &Node) {
        if let Ok(snapshot) = read_snapshot(&node.queue) {
            let snapshot = snapshot.unwrap();
            if (snapshot.boot, snapshot.last_sequence) >= self.position {
                self.take_file(&snapshot);
                self.needs = false;
            }
        }
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
            json!({
                "key": format!("{key:016x}"), "type": "tcp",
                "address": address.ip().to_string(), "port": address.port(),
                "delay": 1, "timeout": 1, "rise": 1, "fall": 1,
            })
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
fn kills_of_both_sides() {
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
fn a_clock_that_goes_back() {
    let (mut node, mut reader, mut servers) = start();
    node.kill();
    // As if the last run had been in a year to come.
    let mut snapshot = node.snapshot().unwrap();
    snapshot.boot += 365 * 86400 * 1_000_000_000;
    let later = encode(
        Kind::Snapshot,
        snapshot.boot,
        0,
        snapshot.last_sequence,
        &snapshot.records,
    );
    fs::write(node.queue.join("snapshot"), later).unwrap();
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
fn stopped_for_ten_seconds() {
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
