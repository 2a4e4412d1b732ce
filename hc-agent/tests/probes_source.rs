// SPDX-License-Identifier: Apache-2.0
//! The source address of probes.

use std::sync::Arc;
use std::time::Duration;

use octavia_xdp_hc::config::{CodeRange, HttpSpec, Method, ProbeSpec, Version};
use octavia_xdp_hc::probe::{Source, run};
use octavia_xdp_hc::reason::Reason;

use crate::support::documents::single;
use crate::support::server::{FINE, Server};

const TIMEOUT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn probes_leave_from_the_source_address() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let source = Source::new(Some("127.0.0.9".parse().unwrap()), None);
    // A request brings the connection to the listener; a bare connect need not.
    let target = listener.local_addr().unwrap();
    let (first, last) = (200, 299);
    let expected = vec![CodeRange { first, last }];
    let http = HttpSpec::new(target, Method::Get, "/", Version::Http11, None, expected);
    let check = single(ProbeSpec::Http(Arc::new(http)), target, TIMEOUT);
    tokio::spawn(async move { run(&check, &source).await });
    let accepted = tokio::time::timeout(TIMEOUT, listener.accept()).await;
    let (_, peer) = accepted.unwrap().unwrap();
    assert_eq!(peer.ip().to_string(), "127.0.0.9");
}

#[tokio::test]
async fn a_source_address_that_the_node_does_not_have_is_a_local_error() {
    let server = Server::start(FINE);
    let source = Source::new(Some("198.51.100.1".parse().unwrap()), None);
    let outcome = run(&single(ProbeSpec::Tcp, server.address, TIMEOUT), &source).await;
    assert_eq!(outcome.reason(), Reason::LOCAL_ERROR);
}
