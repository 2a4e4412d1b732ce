// SPDX-License-Identifier: Apache-2.0
//! Exact semantics: what a server does and how it is checked give the result.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "a test says what it skips")]

mod tricky;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use octavia_xdp_hc::config::{
    Check, CodeRange, HttpCheck, HttpsCheck, Kind, Method, Request, TlsHelloCheck,
    Version,
};
use octavia_xdp_hc::key::Key;
use octavia_xdp_hc::probe::{Source, run};
use octavia_xdp_hc::queue::format::Reason;
use rustls::version::{TLS12, TLS13};
use tokio::task::JoinSet;
use tricky::{Behaviour, Then, Tricky};

const TIMEOUT: Duration = Duration::from_secs(2);
/// Between two bytes of a server that is too slow to be in time.
const SLOW: Duration = Duration::from_millis(400);
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

/// Servers that do the same whatever comes first.
fn table() -> Vec<Row> {
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
        (
            "HTTP 200",
            say(b"HTTP/1.0 200 OK\r\n\r\n"),
            [UP, OK, NO_TLS, NO_TLS],
        ),
        (
            "HTTP 200 and no end",
            plain(Then::SayAndHold(b"HTTP/1.1 200 OK\r\n")),
            [UP, OK, NO_TLS, NO_TLS],
        ),
        (
            "HTTP 503",
            say(b"HTTP/1.1 503 Busy\r\n\r\n"),
            [UP, BUSY, NO_TLS, NO_TLS],
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
        (
            "slow drip in time",
            plain(Then::Drip(b"HTTP/1.0 200\r\n", Duration::from_millis(5))),
            [UP, OK, NO_TLS, NO_TLS],
        ),
        (
            "slow drip",
            plain(Then::Drip(b"HTTP/1.0 200 OK\r\n", SLOW)),
            [UP, SILENT, NO_TLS, NO_TLS],
        ),
    ]
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
                tls(Then::Drip(b"HTTP/1.0 200 OK\r\n", SLOW)),
                [UP, MALFORMED, SILENT, UP],
            ),
        ]);
    }
    rows
}

fn checks(target: SocketAddr) -> [Check; 4] {
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
        Kind::Tcp,
        Kind::Http(Arc::new(HttpCheck::with(target, &request, expected()))),
        Kind::Https(Arc::new(HttpsCheck::new(
            target,
            &request,
            expected(),
            name,
        ))),
        Kind::TlsHello(Arc::new(TlsHelloCheck::new(name))),
    ]
    .map(|kind| Check {
        key: Key::new(1).unwrap(),
        target,
        mark: None,
        delay: TIMEOUT,
        timeout: TIMEOUT,
        rise: 1,
        fall: 1,
        kind,
    })
}

async fn verify(local: &'static str, rows: Vec<Row>) {
    let mut probes = JoinSet::new();
    for (name, behaviour, wanted) in rows {
        for (check, wanted) in (0..4).zip(wanted) {
            // Each has its own server: one probe must not help another.
            probes.spawn(async move {
                let start = move || Tricky::start(local, behaviour);
                let server = tokio::task::spawn_blocking(start).await.unwrap();
                let check = &checks(server.address)[check];
                let outcome = run(check, &Source::default()).await;
                let found = (outcome.reason(), outcome.status);
                let kind = check.kind.name();
                let right = found == wanted && outcome.result.is_ok() == wanted.0.is_ok();
                (!right).then(|| {
                    format!("{name} ({behaviour:?}) × {kind}: {found:?}, not {wanted:?}")
                })
            });
        }
    }
    let wrong: Vec<_> = probes.join_all().await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

trait IsOk {
    fn is_ok(&self) -> bool;
}

impl IsOk for Reason {
    fn is_ok(&self) -> bool {
        *self == Self::NONE
    }
}

#[tokio::test]
async fn over_ipv4() {
    verify("127.0.0.1:0", table()).await;
    verify("127.0.0.1:0", records_table()).await;
}

#[tokio::test]
async fn tls_over_ipv4() {
    verify("127.0.0.1:0", tls_table()).await;
}

#[tokio::test]
async fn over_ipv6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: no IPv6 here");
        return;
    }
    verify("[::1]:0", table()).await;
    verify("[::1]:0", records_table()).await;
    verify("[::1]:0", tls_table()).await;
}
