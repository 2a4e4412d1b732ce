// SPDX-License-Identifier: Apache-2.0
//! UDP-CONNECT against a kernel that keeps most of its ICMP errors back: Linux sends one
//! of them a second to each address, after a burst of six.

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

use octavia_xdp_hc::state::State;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

use crate::support::documents::key;
use crate::support::namespace::{Peer, in_namespace};
use crate::support::node::{Node, pause};

/// Ports with nothing behind them: more than the 9 errors that the kernel sends in the
/// first interval.
const CLOSED: usize = 12;
/// The port of a server that never says anything.
const OPEN: usize = 1;

fn check(number: usize, address: &str) -> Value {
    json!({
        "key": key(number), "type": "udp-connect", "address": address,
        "port": 9000 + number, "delay": 3, "timeout": 2, "rise": 1, "fall": 1,
    })
}

/// A silent server of the peer's.
fn open(peer: &Peer, address: &str, number: usize) -> UdpSocket {
    let namespace = File::open(peer.namespace()).unwrap();
    let address = format!("{address}:{}", 9000 + number);
    std::thread::spawn(move || {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), kind).unwrap();
        UdpSocket::bind(address).unwrap()
    })
    .join()
    .unwrap()
}

#[test]
fn ports_with_nothing_behind_go_down_and_stay_down_however_many() {
    if !in_namespace(
        "icmp_limits::ports_with_nothing_behind_go_down_and_stay_down_however_many",
    ) {
        return;
    }
    let peer = Peer::start();
    let mut node = Node::new();
    let address = "198.18.0.2";
    let _server = open(&peer, address, OPEN);
    let checks: Vec<_> = (OPEN..=OPEN + CLOSED)
        .map(|number| check(number, address))
        .collect();
    node.write(&checks);
    node.start();
    let closed: Vec<_> = (OPEN + 1..=OPEN + CLOSED).map(key).collect();
    for key in &closed {
        node.wait_state(key, State::Down);
    }
    // The open port is found meanwhile, though silence often proves nothing.
    node.wait_state(&key(OPEN), State::Up);
    pause(Duration::from_secs(10));
    let ups: Vec<_> = node
        .reported()
        .iter()
        .filter(|record| record.state == State::Up)
        .map(|record| record.key.to_string())
        .collect();
    assert_eq!(ups, [key(OPEN)], "{}", node.log());
    // Nor do the others keep one down that has a server now.
    let number = OPEN + CLOSED;
    let _second = open(&peer, address, number);
    node.wait_state(&key(number), State::Up);
}
