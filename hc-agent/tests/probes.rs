// SPDX-License-Identifier: Apache-2.0
//! Single probes against servers that behave and servers that do not.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use common::{FINE, Habit, Server, nobody};
use octavia_xdp_hc::config::{Check, CodeRange, HttpCheck, Kind, Method, Version};
use octavia_xdp_hc::key::Key;
use octavia_xdp_hc::probe::{Outcome, Source, run};
use octavia_xdp_hc::queue::format::Reason;

const TIMEOUT: Duration = Duration::from_secs(1);

fn check(target: SocketAddr, kind: Kind) -> Check {
    Check {
        key: Key::new(1).unwrap(),
        target,
        mark: None,
        delay: Duration::from_secs(1),
        timeout: TIMEOUT,
        rise: 1,
        fall: 1,
        kind,
    }
}

fn http(target: SocketAddr) -> Check {
    let (first, last) = (200, 299);
    let expected = vec![CodeRange { first, last }];
    let http = HttpCheck::new(target, Method::Get, "/", Version::Http11, None, expected);
    check(target, Kind::Http(Arc::new(http)))
}

async fn ask(habit: Habit) -> Outcome {
    let server = Server::start(habit);
    run(&http(server.address), &Source::default()).await
}

async fn reason(habit: Habit) -> Reason {
    let outcome = ask(habit).await;
    assert!(outcome.result.is_err(), "{habit:?}: {outcome:?}");
    outcome.reason()
}

#[tokio::test]
async fn tcp() {
    let server = Server::start(Habit::Silent);
    let up = run(&check(server.address, Kind::Tcp), &Source::default()).await;
    assert!(up.result.is_ok(), "{up:?}");
    let down = run(&check(nobody(), Kind::Tcp), &Source::default()).await;
    assert_eq!(down.reason(), Reason::REFUSED);
}

#[tokio::test]
async fn tcp_over_ipv6() {
    let Ok(listener) = std::net::TcpListener::bind("[::1]:0") else {
        return; // No IPv6 here.
    };
    let target = listener.local_addr().unwrap();
    let up = run(&check(target, Kind::Tcp), &Source::default()).await;
    assert!(up.result.is_ok(), "{up:?}");
}

#[tokio::test]
async fn a_target_that_never_answers() {
    // A listener whose backlog is full drops SYNs.
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let target = socket.local_addr().unwrap().as_socket().unwrap();
    let mut held = Vec::new();
    for _ in 0..4 {
        let connect = tokio::net::TcpSocket::new_v4().unwrap().connect(target);
        held.push(tokio::time::timeout(TIMEOUT / 10, connect).await);
    }
    let outcome = run(&check(target, Kind::Tcp), &Source::default()).await;
    assert_eq!(outcome.reason(), Reason::TIMEOUT, "{outcome:?}");
    assert!(outcome.took >= TIMEOUT);
}

#[tokio::test]
async fn a_source_address_is_used() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let source = Source::new(Some("127.0.0.9".parse().unwrap()), None);
    // A request brings the connection to the listener; a bare connect need not.
    let check = http(listener.local_addr().unwrap());
    tokio::spawn(async move { run(&check, &source).await });
    let accepted = tokio::time::timeout(TIMEOUT, listener.accept()).await;
    let (_, peer) = accepted.unwrap().unwrap();
    assert_eq!(peer.ip().to_string(), "127.0.0.9");
}

#[tokio::test]
async fn a_source_address_of_nobody_is_our_fault() {
    let server = Server::start(FINE);
    let source = Source::new(Some("198.51.100.1".parse().unwrap()), None);
    let outcome = run(&check(server.address, Kind::Tcp), &source).await;
    assert_eq!(outcome.reason(), Reason::LOCAL_ERROR);
}

#[tokio::test]
async fn answers_that_are_fine() {
    for habit in [
        FINE,
        Habit::Say("HTTP/1.1 204 No Content\r\n\r\n"),
        Habit::Say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
        Habit::SayLate("HTTP/1.0 200 OK\r\n\r\n", TIMEOUT / 4),
        Habit::Drip("HTTP/1.0 200\r\n", TIMEOUT / 100),
    ] {
        let outcome = ask(habit).await;
        assert!(outcome.result.is_ok(), "{habit:?}: {outcome:?}");
        assert!((200..300).contains(&outcome.status));
    }
}

#[tokio::test]
async fn a_header_that_never_ends_changes_nothing() {
    let outcome = ask(Habit::Flood("HTTP/1.1 200 OK\r\nX: ", "aaaaaaaa")).await;
    assert!(outcome.result.is_ok(), "{outcome:?}");
}

#[tokio::test]
async fn wrong_status() {
    let outcome = ask(Habit::Say("HTTP/1.1 503 Busy\r\n\r\n")).await;
    assert_eq!(
        (outcome.reason(), outcome.status),
        (Reason::BAD_STATUS, 503)
    );
}

#[tokio::test]
async fn malformed() {
    for habit in [
        Habit::Say("SSH-2.0-OpenSSH_9.2\r\n"),
        Habit::Flood("", "\u{1}\u{2}\u{3}"),
        Habit::Flood("HTTP/1.1 200 O", "kkkkkkkk"),
        Habit::Flood("HTTP/1.1 100 Continue\r\n", "X: y\r\n"),
        Habit::Flood("", "\r\n"),
    ] {
        assert_eq!(reason(habit).await, Reason::MALFORMED, "{habit:?}");
    }
}

#[tokio::test]
async fn too_slow() {
    for habit in [
        Habit::Silent,
        Habit::SayLate("HTTP/1.0 200 OK\r\n\r\n", TIMEOUT * 2),
        Habit::Drip("HTTP/1.0 200 OK\r\n\r\n", TIMEOUT / 4),
    ] {
        assert_eq!(reason(habit).await, Reason::TIMEOUT, "{habit:?}");
    }
}

#[tokio::test]
async fn closed_early() {
    for habit in [Habit::Say(""), Habit::Say("HTTP/1.1 20"), Habit::Reset] {
        assert_eq!(reason(habit).await, Reason::CLOSED, "{habit:?}");
    }
}

#[tokio::test]
async fn nobody_there() {
    let outcome = run(&http(nobody()), &Source::default()).await;
    assert_eq!(outcome.reason(), Reason::REFUSED);
}
