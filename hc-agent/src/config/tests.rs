// SPDX-License-Identifier: Apache-2.0
//! Tests the checks file with the vectors that both languages share.

use std::sync::Arc;

use serde_json::Value;

use super::*;

const VECTORS: &str =
    include_str!("../../../octavia_xdp_provider/contracts/checks-vectors.json");

fn vectors(list: &str) -> Vec<Value> {
    let mut all: Value = serde_json::from_str(VECTORS).unwrap();
    serde_json::from_value(all[list].take()).unwrap()
}

#[test]
fn valid_documents_are_taken() {
    for vector in vectors("valid") {
        let text = vector["document"].to_string();
        let checks =
            parse(text.as_bytes()).unwrap_or_else(|e| panic!("{}: {e}", vector["name"]));
        let checks = checks.into_checks();
        let wanted = vector["document"]["checks"].as_array().unwrap();
        assert_eq!(checks.len(), wanted.len());
        for (check, wanted) in checks.iter().zip(wanted) {
            assert_eq!(check.key.to_string(), wanted["key"]);
            assert_eq!(check.target.ip().to_string(), wanted["address"]);
            let port = wanted["port"].as_u64().unwrap_or_default();
            assert_eq!(u64::from(check.target.port()), port);
            assert_eq!(check.delay.as_secs(), wanted["delay"]);
            assert_eq!(check.timeout.as_secs(), wanted["timeout"]);
            assert_eq!(check.rise, wanted["rise"]);
            assert_eq!(check.fall, wanted["fall"]);
            assert_eq!(check.probe.name(), wanted["type"]);
            let mark = check.mark.map(|mark| u64::from(mark.get()));
            assert_eq!(mark, wanted["mark"].as_u64());
            let version = check.proxy_protocol.map(|version| match version {
                ProxyProtocol::V1 => 1,
                ProxyProtocol::V2 => 2,
            });
            assert_eq!(version, wanted["proxy_protocol"].as_u64());
        }
    }
}

#[test]
fn invalid_documents_are_refused_by_name() {
    for vector in vectors("invalid") {
        let text = vector["document"].to_string();
        let Err(error) = parse(text.as_bytes()) else {
            panic!("{} was taken", vector["name"]);
        };
        let error = error.to_string();
        for part in vector["error"].as_array().unwrap() {
            let part = part.as_str().unwrap();
            assert!(error.contains(part), "{}: {error}", vector["name"]);
        }
    }
}

#[test]
fn texts_that_are_no_document_are_refused() {
    for text in ["", "{", "{\"version\":1,\"checks\":[]} x", "\u{0}"] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
    let twice = br#"{"version": 1, "checks": [], "checks": []}"#;
    assert!(parse(twice).is_err());
}

fn request(version: Version, host: Option<&str>, target: &str) -> String {
    let http = HttpSpec::new(
        target.parse().unwrap(),
        Method::Get,
        "/h",
        version,
        host,
        vec![],
    );
    String::from_utf8(http.request.into_vec()).unwrap()
}

#[test]
fn a_request_keeps_what_is_behind_a_number_sign() {
    let http = HttpSpec::new(
        "198.18.0.1:80".parse().unwrap(),
        Method::Get,
        "/a?b#c#d",
        Version::Http10,
        None,
        vec![],
    );
    assert!(http.request.starts_with(b"GET /a?b HTTP/1.0\r\n"));
}

#[test]
fn a_request_names_its_host_where_the_version_needs_it() {
    let text = request(Version::Http10, None, "198.18.0.1:80");
    assert!(text.starts_with("GET /h HTTP/1.0\r\nUser-Agent: octavia-xdp-hc/"));
    assert!(text.ends_with("\r\n\r\n"));
    for (target, host) in [
        ("198.18.0.1:80", "198.18.0.1"),
        ("198.18.0.1:8080", "198.18.0.1:8080"),
        ("[2001:db8::1]:80", "[2001:db8::1]"),
        ("[2001:db8::1]:81", "[2001:db8::1]:81"),
    ] {
        let text = request(Version::Http11, None, target);
        assert!(text.contains(&format!("\r\nHost: {host}\r\n")), "{text}");
    }
    let text = request(Version::Http10, Some("a.example"), "198.18.0.1:81");
    assert!(text.contains("\r\nHost: a.example\r\n"));
}

#[test]
fn tls_options_are_the_server_name_or_none() {
    let tls = |kind: &str, name: &str| {
        let http = r#""http": {"method": "GET", "path": "/", "version": "1.1",
            "host": null, "expected_codes": [[200, 200]]},"#;
        let http = if kind == "https" { http } else { "" };
        let text = format!(
            r#"{{"version": 1, "checks": [{{"key": "0000000000000001",
            "type": "{kind}", "address": "198.18.0.1", "port": 443, "delay": 1,
            "timeout": 1, "rise": 1, "fall": 1, {http}
            "tls": {{"server_name": {name}}}}}]}}"#
        );
        parse(text.as_bytes())
            .unwrap()
            .into_checks()
            .remove(0)
            .probe
    };
    let ProbeSpec::Https(check) = tls("https", "\"www.example.org\"") else {
        panic!("no HTTPS check");
    };
    let name = check.server_name.as_ref().map(AsRef::as_ref);
    assert_eq!(name, Some("www.example.org"));
    // 443 is the default port of HTTPS.
    let request = String::from_utf8(check.http.request.to_vec()).unwrap();
    assert!(request.contains("\r\nHost: 198.18.0.1\r\n"), "{request}");
    let ProbeSpec::Https(check) = tls("https", "null") else {
        panic!("no HTTPS check");
    };
    assert!(check.server_name.is_none());
    let ProbeSpec::TlsHello(check) = tls("tls-hello", "\"a_b.example\"") else {
        panic!("no TLS-HELLO check");
    };
    assert_eq!(check.server_name.as_deref(), Some("a_b.example"));
}

#[test]
fn equal_details_are_kept_once() {
    let check = |number: u32, path: &str| {
        format!(
            r#"{{"key": "{number:016x}", "type": "http", "address": "198.18.0.{number}",
            "port": 80, "delay": 1, "timeout": 1, "rise": 1, "fall": 1,
            "http": {{"method": "GET", "path": "{path}", "version": "1.0",
            "host": null, "expected_codes": [[200, 200]]}}}}"#
        )
    };
    let text = format!(
        r#"{{"version": 1, "checks": [{}, {}, {}]}}"#,
        check(1, "/"),
        check(2, "/"),
        check(3, "/other")
    );
    let kinds: Vec<_> = parse(text.as_bytes())
        .unwrap()
        .into_checks()
        .into_iter()
        .map(|check| match check.probe {
            ProbeSpec::Http(http) => http,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(Arc::ptr_eq(&kinds[0], &kinds[1]));
    assert!(!Arc::ptr_eq(&kinds[0], &kinds[2]));
}

#[test]
fn an_error_repeats_little_of_a_malformed_file_and_no_control_characters() {
    let long = "x".repeat(1 << 20);
    for (text, wanted) in [
        (
            format!(r#"{{"version": 1, "checks": "{long}"}}"#),
            "checks: ",
        ),
        (format!(r#"{{"version": 1, "{long}": 1}}"#), "unknown field"),
        (
            format!(r#"{{"version": 1, "checks": [{{"type": "{long}"}}]}}"#),
            "checks[0].type: ",
        ),
        (r#"{"version": 1, "a\nb\u001b[1m": 1}"#.to_owned(), "a\\n"),
    ] {
        let error = parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
        assert!(error.len() < 700, "{} bytes: {error}", error.len());
        assert!(!error.chars().any(char::is_control), "{error:?}");
    }
}
