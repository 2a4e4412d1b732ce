// SPDX-License-Identifier: Apache-2.0
//! The checks file: what is probed, and how.
//!
//! A file is taken whole or refused whole. `checks.schema.json` describes it and
//! `checks-vectors.json` holds examples that both languages test.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use crate::key::Key;
use crate::raw::{self, Object};
pub use crate::raw::{CodeRange, Method, Version, is_host, is_path};

/// A file above this size, in bytes, is refused: more than a million checks.
const MAX_FILE: u64 = 256 << 20;

/// One target and how it is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub key: Key,
    /// Where probes go.
    pub target: SocketAddr,
    /// Time between the starts of two probes.
    pub delay: Duration,
    /// Time after which a probe has failed.
    pub timeout: Duration,
    /// Successes in a row that bring it from down to up.
    pub rise: u8,
    /// Failures in a row that bring it down.
    pub fall: u8,
    /// What a probe does.
    pub kind: Kind,
}

/// What a probe does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Connect.
    Tcp,
    /// Connect, send a request, judge the status line.
    Http(HttpCheck),
}

impl Kind {
    /// The name in the checks file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Http(_) => "http",
        }
    }
}

/// The request of an HTTP check and what it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCheck {
    /// The whole request, as sent.
    pub request: Box<[u8]>,
    /// Accepted status codes.
    pub expected: Box<[CodeRange]>,
}

impl HttpCheck {
    /// Write the request once; every probe of the check sends it.
    ///
    /// `path` and `host` must have passed [`is_path`] and [`is_host`].
    pub fn new(
        target: SocketAddr,
        method: Method,
        path: &str,
        version: Version,
        host: Option<&str>,
        expected: Vec<CodeRange>,
    ) -> Self {
        use std::fmt::Write;

        let number = match version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        };
        let mut text = format!("{} {path} HTTP/{number}\r\n", method.as_str());
        let host = match (host, version) {
            (Some(host), _) => Some(host.to_owned()),
            (None, Version::Http11) => Some(authority(target)),
            (None, Version::Http10) => None,
        };
        if let Some(host) = host {
            let _ = write!(text, "Host: {host}\r\n");
        }
        text.push_str(concat!(
            "User-Agent: octavia-xdp-hc/",
            env!("CARGO_PKG_VERSION"),
            "\r\nAccept: */*\r\nConnection: close\r\n",
        ));
        if method.wants_length() {
            text.push_str("Content-Length: 0\r\n");
        }
        text.push_str("\r\n");
        Self {
            request: text.into_bytes().into(),
            expected: expected.into(),
        }
    }

    /// Whether a status code is a success.
    pub fn expects(&self, code: u16) -> bool {
        self.expected
            .iter()
            .any(|range| (range.first..=range.last).contains(&code))
    }
}

/// The address as a Host header spells it: the port only if it is not HTTP's.
fn authority(target: SocketAddr) -> String {
    match (target.ip(), target.port()) {
        (IpAddr::V4(ip), 80) => ip.to_string(),
        (IpAddr::V6(ip), 80) => format!("[{ip}]"),
        _ => target.to_string(),
    }
}

/// Why a checks file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It can't be read.
    #[error("{0}")]
    Read(#[from] std::io::Error),
    /// It is too long.
    #[error("longer than {MAX_FILE} bytes")]
    TooLong,
    /// It is no JSON, or a field is missing, unknown or wrong.
    #[error("{path}: {error}")]
    Field {
        /// Where in the document, as `checks[3].http.path`.
        path: String,
        /// What is wrong there.
        error: String,
    },
}

impl ConfigError {
    /// Whether there simply is no file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read(e) if e.kind() == std::io::ErrorKind::NotFound)
    }
}

/// Read a checks file.
pub fn load(path: &Path) -> Result<Vec<Check>, ConfigError> {
    let mut text = Vec::new();
    File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(ConfigError::TooLong);
    }
    parse(&text)
}

/// Read the text of a checks file.
pub fn parse(text: &[u8]) -> Result<Vec<Check>, ConfigError> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let Object(file): Object<raw::File> = serde_path_to_error::deserialize(&mut reader)
        .map_err(|e| ConfigError::Field {
        path: e.path().to_string(),
        error: e.into_inner().to_string(),
    })?;
    reader.end().map_err(|e| ConfigError::Field {
        path: "document".to_owned(),
        error: e.to_string(),
    })?;

    let mut places = HashMap::with_capacity(file.checks.len());
    let mut checks = Vec::with_capacity(file.checks.len());
    for (place, Object(check)) in file.checks.into_iter().enumerate() {
        if let Some(other) = places.insert(check.key, place) {
            return Err(ConfigError::Field {
                path: format!("checks[{place}].key"),
                error: format!("{} is also the key of checks[{other}]", check.key),
            });
        }
        checks.push(build(place, check)?);
    }
    Ok(checks)
}

fn build(place: usize, check: raw::Check) -> Result<Check, ConfigError> {
    let target = SocketAddr::new(check.address, check.port.get());
    let kind = match (check.kind, check.http) {
        (raw::Kind::Tcp, None) => Kind::Tcp,
        (raw::Kind::Http, Some(http)) => Kind::Http(HttpCheck::new(
            target,
            http.method,
            &http.path,
            http.version,
            http.host.as_deref(),
            http.expected_codes,
        )),
        (raw::Kind::Tcp, Some(_)) => {
            return Err(ConfigError::Field {
                path: format!("checks[{place}].http"),
                error: "not for a check of type tcp".to_owned(),
            });
        }
        (raw::Kind::Http, None) => {
            return Err(ConfigError::Field {
                path: format!("checks[{place}].http"),
                error: "missing for a check of type http".to_owned(),
            });
        }
    };
    Ok(Check {
        key: check.key,
        target,
        delay: Duration::from_secs(check.delay),
        timeout: Duration::from_secs(check.timeout),
        rise: check.rise,
        fall: check.fall,
        kind,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const VECTORS: &str =
        include_str!("../../octavia_xdp_provider/common/contracts/checks-vectors.json");

    fn vectors(list: &str) -> Vec<Value> {
        let mut all: Value = serde_json::from_str(VECTORS).unwrap();
        serde_json::from_value(all[list].take()).unwrap()
    }

    #[test]
    fn valid_documents_are_taken() {
        for vector in vectors("valid") {
            let text = vector["document"].to_string();
            let checks = parse(text.as_bytes())
                .unwrap_or_else(|e| panic!("{}: {e}", vector["name"]));
            let wanted = vector["document"]["checks"].as_array().unwrap();
            assert_eq!(checks.len(), wanted.len());
            for (check, wanted) in checks.iter().zip(wanted) {
                assert_eq!(check.key.to_string(), wanted["key"]);
                assert_eq!(check.target.ip().to_string(), wanted["address"]);
                assert_eq!(check.target.port(), wanted["port"]);
                assert_eq!(check.delay.as_secs(), wanted["delay"]);
                assert_eq!(check.timeout.as_secs(), wanted["timeout"]);
                assert_eq!(check.rise, wanted["rise"]);
                assert_eq!(check.fall, wanted["fall"]);
                assert_eq!(check.kind.name(), wanted["type"]);
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
    fn what_is_no_document() {
        for text in ["", "{", "{\"version\":1,\"checks\":[]} x", "\u{0}"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        let twice = br#"{"version": 1, "checks": [], "checks": []}"#;
        assert!(parse(twice).is_err());
    }

    fn request(version: Version, host: Option<&str>, target: &str) -> String {
        let http = HttpCheck::new(
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
    fn requests() {
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
}
