// SPDX-License-Identifier: Apache-2.0
//! PING, UDP-CONNECT and SCTP. Tests that need raw sockets run in a network namespace
//! of their own, so that they see nothing of this node and it sees nothing of them;
//! without root they are skipped.

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU32;
use std::time::Duration;

use octavia_xdp_hc::config::{Check, ProbeSpec};
use octavia_xdp_hc::probe::{ProbeOutcome, Source, run};
use octavia_xdp_hc::reason::Reason;
use tokio::task::JoinSet;

use crate::support::documents::single;
use crate::support::namespace::{Peer, in_namespace, run as command, write};
use crate::support::sctp_responder::{Habit, Responder};

const TIMEOUT: Duration = Duration::from_secs(1);
/// Time-out of probes that must not reach it, however busy the machine is. The
/// kernel gives up on a neighbour that does not answer after about three seconds.
const LONG: Duration = Duration::from_secs(60);

/// A check whose packets are marked.
fn marked(probe: ProbeSpec, target: &str, mark: u32) -> Check {
    let mut check = single(probe, target.parse().unwrap(), LONG);
    check.mark = NonZeroU32::new(mark);
    check
}

async fn probe(probe: ProbeSpec, target: &str, timeout: Duration) -> ProbeOutcome {
    let target = target.parse().unwrap();
    run(&single(probe, target, timeout), &Source::default()).await
}

fn loopbacks() -> Vec<&'static str> {
    let mut all = vec!["127.0.0.1", "[::1]"];
    if UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("skipped: no IPv6 here");
        all.pop();
    }
    all
}

#[tokio::test]
async fn udp_connect_takes_silence_for_success_and_icmp_for_failure() {
    for host in loopbacks() {
        let silent = UdpSocket::bind(format!("{host}:0")).unwrap();
        let target = silent.local_addr().unwrap();
        let ask = single(ProbeSpec::UdpConnect, target, TIMEOUT);
        let outcome = run(&ask, &Source::default()).await;
        assert!(outcome.result.is_ok(), "{outcome:?}");
        assert!(outcome.took >= TIMEOUT);
        let mut some = [0; 16];
        let (length, from) = silent.recv_from(&mut some).unwrap();
        assert_eq!(length, 0, "it is empty");
        drop(silent);

        let outcome = run(&ask, &Source::default()).await;
        assert_eq!(outcome.reason(), Reason::ICMP_UNREACHABLE, "{outcome:?}");
        assert!(outcome.took < TIMEOUT);

        let talker = UdpSocket::bind(format!("{host}:0")).unwrap();
        let target = talker.local_addr().unwrap();
        std::thread::spawn(move || {
            let (_, from) = talker.recv_from(&mut [0; 16]).unwrap();
            talker.send_to(b"hello", from).unwrap();
        });
        let ask = single(ProbeSpec::UdpConnect, target, LONG);
        let outcome = run(&ask, &Source::default()).await;
        assert!(outcome.result.is_ok(), "{outcome:?}");
        assert!(outcome.took < LONG);
        assert_ne!(from.port(), target.port());
    }
}

#[tokio::test]
async fn pings_work_with_and_without_raw_sockets() {
    if !in_namespace("probes_raw::pings_work_with_and_without_raw_sockets") {
        return;
    }
    // First by raw sockets, then by those that need no privilege.
    for groups in ["1 0", "0 2147483647"] {
        write("/proc/sys/net/ipv4/ping_group_range", groups);
        for host in loopbacks() {
            let outcome = probe(ProbeSpec::Ping, &format!("{host}:0"), LONG).await;
            assert!(outcome.result.is_ok(), "{outcome:?}");
        }
        write("/proc/sys/net/ipv4/icmp_echo_ignore_all", "1");
        let outcome = probe(ProbeSpec::Ping, "127.0.0.1:0", TIMEOUT).await;
        assert_eq!(outcome.reason(), Reason::TIMEOUT, "{outcome:?}");
        assert!((TIMEOUT..LONG).contains(&outcome.took));
        write("/proc/sys/net/ipv4/icmp_echo_ignore_all", "0");
    }
}

#[tokio::test]
async fn many_pings_at_once_get_each_its_own_reply() {
    if !in_namespace("probes_raw::many_pings_at_once_get_each_its_own_reply") {
        return;
    }
    for groups in ["1 0", "0 2147483647"] {
        write("/proc/sys/net/ipv4/ping_group_range", groups);
        let source = Source::default();
        let mut probes = JoinSet::new();
        for number in 0..2000_u32 {
            let source = source.clone();
            // Every fifth target does not exist: nothing of 192.0.2.0/24 is ours.
            let (network, timeout) = if number % 5 == 0 {
                ("192.0.2", TIMEOUT)
            } else {
                ("127.0.0", LONG)
            };
            let target = format!("{network}.{}:0", number % 200 + 1);
            let ask = single(ProbeSpec::Ping, target.parse().unwrap(), timeout);
            probes.spawn(async move {
                let outcome = run(&ask, &source).await;
                (network, outcome)
            });
        }
        for (network, outcome) in probes.join_all().await {
            let up = outcome.result.is_ok();
            assert_eq!(up, network == "127.0.0", "{network}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_machine_beyond_a_wire_answers_pings_and_refuses_the_rest() {
    if !in_namespace(
        "probes_raw::a_machine_beyond_a_wire_answers_pings_and_refuses_the_rest",
    ) {
        return;
    }
    let _peer = Peer::start();
    for host in ["198.18.0.2", "[2001:db8::2]"] {
        let outcome = probe(ProbeSpec::Ping, &format!("{host}:0"), LONG).await;
        assert!(outcome.result.is_ok(), "{outcome:?}");
        // No process has that UDP port, and SCTP is unknown or refused.
        for kind in [ProbeSpec::UdpConnect, ProbeSpec::Sctp] {
            let outcome = probe(kind, &format!("{host}:9"), LONG).await;
            let reason = outcome.reason();
            assert!(
                matches!(reason, Reason::ICMP_UNREACHABLE | Reason::SCTP_ABORT),
                "{outcome:?}"
            );
            assert!(outcome.took < LONG);
        }
    }
}

#[tokio::test]
async fn a_machine_that_is_not_there_is_unreachable_by_each_type() {
    if !in_namespace(
        "probes_raw::a_machine_that_is_not_there_is_unreachable_by_each_type",
    ) {
        return;
    }
    let _peer = Peer::start();
    let mut probes = JoinSet::new();
    for kind in [ProbeSpec::Ping, ProbeSpec::UdpConnect, ProbeSpec::Sctp] {
        for host in ["198.18.0.9", "[2001:db8::9]"] {
            let (kind, target) = (kind.clone(), format!("{host}:9"));
            probes.spawn(async move { probe(kind, &target, LONG).await });
        }
    }
    for outcome in probes.join_all().await {
        // Even UDP-CONNECT sees it, well before it would call the silence success.
        assert_eq!(outcome.reason(), Reason::UNREACHABLE, "{outcome:?}");
        assert!(outcome.took < LONG);
    }
}

#[tokio::test]
async fn sctp_outcomes_follow_what_the_server_does_with_init() {
    if !in_namespace("probes_raw::sctp_outcomes_follow_what_the_server_does_with_init") {
        return;
    }
    let table = [
        (Habit::Accept, Reason::NONE, 0),
        (Habit::AcceptWithoutChecksum, Reason::NONE, 0),
        (Habit::Abort(Some(4)), Reason::SCTP_ABORT, 4),
        (Habit::Abort(None), Reason::SCTP_ABORT, 0),
        (Habit::AbortReflected, Reason::SCTP_ABORT, 0),
        (Habit::AcceptSecond, Reason::NONE, 0),
        (Habit::Silent, Reason::TIMEOUT, 0),
        (Habit::WrongTag, Reason::TIMEOUT, 0),
        (Habit::WrongChecksum, Reason::TIMEOUT, 0),
        (Habit::WrongPort, Reason::TIMEOUT, 0),
        (Habit::Garbage, Reason::TIMEOUT, 0),
    ];
    for host in loopbacks() {
        let mut probes = JoinSet::new();
        for (port, (habit, reason, detail)) in (1000..).zip(table) {
            let target: SocketAddr = format!("{host}:{port}").parse().unwrap();
            let responder = Responder::start(target, habit);
            probes.spawn(async move {
                let timeout = match reason {
                    Reason::TIMEOUT => 3 * TIMEOUT,
                    _ => LONG,
                };
                let ask = single(ProbeSpec::Sctp, target, timeout);
                let outcome = run(&ask, &Source::default()).await;
                let found = (outcome.reason(), outcome.status);
                assert_eq!(found, (reason, detail), "{habit:?}: {outcome:?}");
                // A peer that accepted the association gets an ABORT.
                if outcome.result.is_ok() {
                    responder.wait_for_abort().await;
                } else {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    assert!(!responder.is_aborted(), "{habit:?}");
                }
            });
        }
        probes.join_all().await;
    }
}

#[tokio::test]
async fn marks_choose_the_route() {
    if !in_namespace("probes_raw::marks_choose_the_route") {
        return;
    }
    let peer = Peer::start();
    // Only packets with mark 7 have a route to addresses that the peer has beside its
    // own; those with mark 8 are refused one.
    for (family, address, next_hop) in [
        ("-4", "203.0.113.1/32", "198.18.0.2"),
        ("-6", "2001:db8:1::1/128", "2001:db8::2"),
    ] {
        peer.run(&format!("ip {family} addr add {address} dev lo"));
        command(&format!(
            "ip {family} route add {address} via {next_hop} table 107"
        ));
        command(&format!("ip {family} rule add fwmark 7 lookup 107"));
        command(&format!("ip {family} rule add fwmark 8 prohibit"));
    }
    peer.run("ip link set lo up");
    // One socket for the pings of all marks, and one for SCTP.
    let source = Source::default();
    let mut probes = JoinSet::new();
    for host in ["203.0.113.1", "[2001:db8:1::1]"] {
        for (number, mark) in [7, 0, 8, 7, 0, 7].into_iter().enumerate() {
            for kind in [
                ProbeSpec::Tcp,
                ProbeSpec::Ping,
                ProbeSpec::UdpConnect,
                ProbeSpec::Sctp,
            ] {
                let source = source.clone();
                let port = 1000 + number;
                let ask = marked(kind, &format!("{host}:{port}"), mark);
                probes.spawn(async move {
                    let outcome = run(&ask, &source).await;
                    let reason = outcome.reason();
                    let there = match ask.probe {
                        ProbeSpec::Ping => reason == Reason::NONE,
                        ProbeSpec::Tcp => reason == Reason::REFUSED,
                        _ => matches!(
                            reason,
                            Reason::ICMP_UNREACHABLE | Reason::SCTP_ABORT
                        ),
                    };
                    assert_eq!(there, mark == 7, "{ask:?}: {outcome:?}");
                    if mark != 7 {
                        assert_eq!(reason, Reason::UNREACHABLE, "{ask:?}: {outcome:?}");
                    }
                });
            }
        }
    }
    probes.join_all().await;
}
