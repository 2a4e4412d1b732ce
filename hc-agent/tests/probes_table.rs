// SPDX-License-Identifier: Apache-2.0
//! Exact semantics: what a server does and how it is checked give the result.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use octavia_xdp_hc::config::{
    Check, CodeRange, HttpSpec, HttpsSpec, Method, ProbeSpec, Request, TlsHelloSpec,
    Version,
};
use octavia_xdp_hc::probe::{Source, run};
use octavia_xdp_hc::reason::Reason;
use rustls::version::{TLS12, TLS13};
use tokio::task::JoinSet;

use crate::support::documents::single;
use crate::support::server::{Behaviour, Server, Then};

const TIMEOUT: Duration = Duration::from_secs(2);
/// Time-out of probes that must not reach it, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two bytes of a server that is too slow to be in time.
const SLOW: Duration = Duration::from_millis(500);
/// Lasts much longer than TIMEOUT at that pace.
const SLOW_LINE: &[u8] =
    b"HTTP/1.0 200 This line has a reason phrase as long as it takes\r\n";
/// So much longer than TIMEOUT that a busy machine is not late by it.
const LATE: Duration = Duration::from_secs(120);
const NONE: u16 = 0;

/// The reason and the number beside it.
type Result = (Reason, u16);

const UP: Result = (Reason::NONE, NONE);
const OK: Result = (Reason::NONE, 200);
const REFUSED: Result = (Reason::REFUSED, NONE);
const SILENT: Result = (Reason::TIMEOUT, NONE);
const CLOSED: Result = (Reason::CLOSED, NONE);
const MALFORMED: Result = (Reason::MALFORMED, NONE);
const NO_TLS: Result = (Reason::TLS_ERROR, NONE);
const BUSY: Result = (Reason::BAD_STATUS, 503);

const fn alert(number: u16) -> Result {
    (Reason::TLS_ALERT, number)
}

/// Columns: tcp, http, https, tls-hello.
type Row = (&'static str, Behaviour, [Result; 4]);

fn plain(then: Then) -> Behaviour {
    Behaviour::Plain(then)
}

/// Servers that never come to an answer.
fn connection_table() -> Vec<Row> {
    let say = |bytes| plain(Then::Say(bytes));
    vec![
        ("no listener", Behaviour::Nobody, [REFUSED; 4]),
        ("full backlog", Behaviour::BacklogFull, [SILENT; 4]),
        (
            "half open",
            plain(Then::SayAndHold(b"")),
            [UP, SILENT, SILENT, SILENT],
        ),
        (
            "early close",
            Behaviour::CloseAtOnce,
            [UP, CLOSED, CLOSED, CLOSED],
        ),
        (
            "close after the request",
            say(b""),
            [UP, CLOSED, CLOSED, CLOSED],
        ),
        ("reset", plain(Then::Reset), [UP, CLOSED, CLOSED, CLOSED]),
    ]
}

/// Servers that answer at once, in plain text.
fn answer_table() -> Vec<Row> {
    let say = |bytes| plain(Then::Say(bytes));
    vec![
        (
            "HTTP 200",
            say(b"HTTP/1.0 200 OK\r\n\r\n"),
            [UP, OK, NO_TLS, NO_TLS],
        ),
        (
            "HTTP 204",
            say(b"HTTP/1.1 204 No Content\r\n\r\n"),
            [UP, (Reason::NONE, 204), NO_TLS, NO_TLS],
        ),
        (
            "interim answer, then HTTP 200",
            say(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
            [UP, OK, NO_TLS, NO_TLS],
        ),
        (
            "HTTP 503",
            say(b"HTTP/1.1 503 Busy\r\n\r\n"),
            [UP, BUSY, NO_TLS, NO_TLS],
        ),
        (
            "banner of SSH",
            say(b"SSH-2.0-OpenSSH_9.2\r\n"),
            [UP, MALFORMED, NO_TLS, NO_TLS],
        ),
        (
            "wrong version",
            say(b"HTTP/2.0 200 OK\r\n\r\n"),
            [UP, MALFORMED, NO_TLS, NO_TLS],
        ),
        (
            "another protocol",
            say(b"220 mail.example ESMTP\r\n"),
            [UP, MALFORMED, NO_TLS, NO_TLS],
        ),
        (
            "half a status line",
            say(b"HTTP/1.1 20"),
            [UP, CLOSED, NO_TLS, NO_TLS],
        ),
    ]
}

/// Servers whose answer comes slowly or has no end.
fn slow_table() -> Vec<Row> {
    vec![
        (
            "HTTP 200 and no end",
            plain(Then::SayAndHold(b"HTTP/1.1 200 OK\r\n")),
            [UP, OK, NO_TLS, NO_TLS],
        ),
        (
            "late answer in time",
            plain(Then::SayLate(b"HTTP/1.0 200 OK\r\n\r\n", SLOW)),
            [UP, OK, NO_TLS, NO_TLS],
        ),
        (
            "late answer",
            plain(Then::SayLate(b"HTTP/1.0 200 OK\r\n\r\n", LATE)),
            [UP, SILENT, SILENT, SILENT],
        ),
        (
            "huge header",
            plain(Then::Flood(b"HTTP/1.1 200 OK\r\nX: ", b"aaaaaaaa")),
            [UP, OK, NO_TLS, NO_TLS],
        ),
        (
            "huge reason phrase",
            plain(Then::Flood(b"HTTP/1.1 200 O", b"KKKKKKKK")),
            [UP, MALFORMED, NO_TLS, NO_TLS],
        ),
        (
            "interim answers for ever",
            plain(Then::Flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
            [UP, MALFORMED, NO_TLS, NO_TLS],
        ),
        (
            "interim headers for ever",
            plain(Then::Flood(b"HTTP/1.1 100 Continue\r\n", b"X: y\r\n")),
            [UP, MALFORMED, NO_TLS, NO_TLS],
        ),
        (
            "empty lines for ever",
            plain(Then::Flood(b"", b"\r\n")),
            [UP, MALFORMED, NO_TLS, NO_TLS],
        ),
        (
            "noise for ever",
            plain(Then::Flood(b"", b"\x01\x02\x03")),
            [UP, MALFORMED, NO_TLS, NO_TLS],
        ),
        (
            "slow drip in time",
            plain(Then::Drip(b"HTTP/1.0 200\r\n", Duration::from_millis(5))),
            [UP, OK, NO_TLS, NO_TLS],
        ),
        (
            "slow drip",
            plain(Then::Drip(SLOW_LINE, SLOW)),
            [UP, SILENT, NO_TLS, NO_TLS],
        ),
    ]
}

/// Servers that do the same whatever comes first.
fn table() -> Vec<Row> {
    [connection_table(), answer_table(), slow_table()].concat()
}

/// Servers that send records of TLS as they like.
fn records_table() -> Vec<Row> {
    let say = |bytes| plain(Then::Say(bytes));
    vec![
        (
            "TLS alert handshake_failure",
            say(b"\x15\x03\x03\x00\x02\x02\x28"),
            [UP, MALFORMED, alert(40), alert(40)],
        ),
        (
            "TLS alert unrecognized_name",
            say(b"\x15\x03\x01\x00\x02\x02\x70"),
            [UP, MALFORMED, alert(112), alert(112)],
        ),
        (
            "TLS record of nonsense",
            say(b"\x16\x03\x03\x00\x04nope"),
            [UP, MALFORMED, NO_TLS, NO_TLS],
        ),
        (
            "TLS record longer than allowed",
            say(b"\x16\x03\x03\xff\xff\x02"),
            [UP, MALFORMED, NO_TLS, NO_TLS],
        ),
        (
            "TLS data before the handshake",
            say(b"\x17\x03\x03\x00\x01\x00"),
            [UP, MALFORMED, NO_TLS, NO_TLS],
        ),
        (
            "beginning of a TLS record",
            plain(Then::SayAndHold(b"\x16\x03\x03")),
            [UP, MALFORMED, SILENT, SILENT],
        ),
        (
            "TLS ServerHello and silence",
            plain(Then::SayAndHold(
                b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03",
            )),
            [UP, MALFORMED, SILENT, UP],
        ),
    ]
}

/// Servers that really talk TLS, and a plain request ends that.
fn tls_table() -> Vec<Row> {
    let mut rows = Vec::new();
    for version in [&TLS12, &TLS13] {
        let tls = |then| Behaviour::Tls(version, then);
        rows.extend([
            (
                "TLS, HTTP 200",
                tls(Then::Say(b"HTTP/1.0 200 OK\r\n\r\n")),
                [UP, MALFORMED, OK, UP],
            ),
            (
                "TLS, HTTP 503",
                tls(Then::SayAndHold(b"HTTP/1.1 503 Busy\r\n")),
                [UP, MALFORMED, BUSY, UP],
            ),
            (
                "TLS, silence",
                tls(Then::SayAndHold(b"")),
                [UP, MALFORMED, SILENT, UP],
            ),
            (
                "TLS, close",
                tls(Then::Say(b"")),
                [UP, MALFORMED, CLOSED, UP],
            ),
            (
                "TLS, half a status line",
                tls(Then::Say(b"HTTP/1.1 20")),
                [UP, MALFORMED, CLOSED, UP],
            ),
            (
                "TLS, huge header",
                tls(Then::Flood(b"HTTP/1.1 200 OK\r\nX: ", &[b'a'; 4096])),
                [UP, MALFORMED, OK, UP],
            ),
            (
                "TLS, no HTTP",
                tls(Then::Say(b"220 mail.example ESMTP\r\n")),
                [UP, MALFORMED, MALFORMED, UP],
            ),
            (
                "TLS, interim answers for ever",
                tls(Then::Flood(b"", b"HTTP/1.1 103 Early\r\n\r\n")),
                [UP, MALFORMED, MALFORMED, UP],
            ),
            (
                "TLS, slow drip in time",
                tls(Then::Drip(b"HTTP/1.0 200\r\n", Duration::from_millis(5))),
                [UP, MALFORMED, OK, UP],
            ),
            (
                "TLS, slow drip",
                tls(Then::Drip(SLOW_LINE, SLOW)),
                [UP, MALFORMED, SILENT, UP],
            ),
        ]);
    }
    rows
}

fn checks(target: SocketAddr, timeout: Duration) -> [Check; 4] {
    let expected = || {
        let (first, last) = (200, 299);
        vec![CodeRange { first, last }]
    };
    let request = Request {
        method: Method::Get,
        path: "/",
        version: Version::Http11,
        host: Some("member.example"),
    };
    let name = Some("member.example");
    [
        ProbeSpec::Tcp,
        ProbeSpec::Http(Arc::new(HttpSpec::with(target, &request, expected()))),
        ProbeSpec::Https(Arc::new(HttpsSpec::new(target, &request, expected(), name))),
        ProbeSpec::TlsHello(Arc::new(TlsHelloSpec::new(name))),
    ]
    .map(|probe| single(probe, target, timeout))
}

async fn verify(local: &'static str, rows: Vec<Row>) {
    let mut probes = JoinSet::new();
    for (name, behaviour, wanted) in rows {
        for (check, wanted) in (0..4).zip(wanted) {
            // Each has its own server: one probe must not help another.
            probes.spawn(async move {
                let any = local.parse().unwrap();
                let start = move || Server::at(any, behaviour);
                let server = tokio::task::spawn_blocking(start).await.unwrap();
                let timeout = if wanted == SILENT { TIMEOUT } else { PATIENCE };
                let check = &checks(server.address, timeout)[check];
                let outcome = run(check, &Source::default()).await;
                let found = (outcome.reason(), outcome.status);
                let kind = check.probe.name();
                let right = found == wanted
                    && outcome.result.is_ok() == (wanted.0 == Reason::NONE)
                    && (found != SILENT || outcome.took >= TIMEOUT);
                (!right).then(|| {
                    format!("{name} ({behaviour:?}) × {kind}: {found:?}, not {wanted:?}")
                })
            });
        }
    }
    let wrong: Vec<_> = probes.join_all().await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn tcp_and_http_outcomes_follow_what_the_server_does() {
    verify("127.0.0.1:0", table()).await;
    verify("127.0.0.1:0", records_table()).await;
}

#[tokio::test]
async fn tls_outcomes_follow_what_the_server_does() {
    verify("127.0.0.1:0", tls_table()).await;
}

#[tokio::test]
async fn outcomes_over_ipv6_are_the_same() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: no IPv6 here");
        return;
    }
    verify("[::1]:0", table()).await;
    verify("[::1]:0", records_table()).await;
    verify("[::1]:0", tls_table()).await;
}
