// SPDX-License-Identifier: Apache-2.0
//! Checks as they stand in a checks file, every second, and as a probe takes them.

use std::net::SocketAddr;
use std::time::Duration;

use octavia_xdp_hc::config::{Check, CodeRange, Method, ProbeSpec, Request, Version};
use octavia_xdp_hc::key::Key;
use serde_json::{Value, json};

/// Keys of checks that a test names.
pub(crate) const A: &str = "000000000000000a";
pub(crate) const B: &str = "000000000000000b";

/// The key of a number.
pub(crate) fn key(number: usize) -> String {
    format!("{number:016x}")
}

/// A check of type tcp, up with its first success. Nothing that answers misses this
/// timeout, however busy the machine is.
pub(crate) fn tcp(key: &str, target: SocketAddr, fall: u8) -> Value {
    json!({
        "key": key, "type": "tcp", "address": target.ip().to_string(),
        "port": target.port(), "delay": 1, "timeout": 60, "rise": 1, "fall": fall,
    })
}

/// A check of type http.
pub(crate) fn http(key: &str, target: SocketAddr, fall: u8) -> Value {
    let mut check = tcp(key, target, fall);
    check["type"] = json!("http");
    check["http"] = json!({
        "method": "GET", "path": "/", "version": "1.0", "host": null,
        "expected_codes": [[200, 299]],
    });
    check
}

/// The request of a probe to a web server, and the code that it expects.
pub(crate) fn get(expected: u16) -> (Request<'static>, Vec<CodeRange>) {
    let request = Request {
        method: Method::Get,
        path: "/",
        version: Version::Http10,
        host: None,
    };
    let codes = vec![CodeRange {
        first: expected,
        last: expected,
    }];
    (request, codes)
}

/// The same check with another timeout, in seconds.
pub(crate) fn with_timeout(mut check: Value, seconds: u8) -> Value {
    check["timeout"] = json!(seconds);
    check
}

/// A check for one probe without a checks file.
pub(crate) fn single(probe: ProbeSpec, target: SocketAddr, timeout: Duration) -> Check {
    Check {
        key: Key::new(1).unwrap(),
        target,
        mark: None,
        proxy_protocol: None,
        delay: timeout,
        timeout,
        rise: 1,
        fall: 1,
        probe,
    }
}
