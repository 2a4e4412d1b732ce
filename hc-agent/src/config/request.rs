// SPDX-License-Identifier: Apache-2.0
//! Allowed values in an HTTP request or a `ClientHello`, and how a request is written.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Longest path, in bytes.
const MAX_PATH_BYTES: usize = 2048;
/// Longest Host header, in bytes.
const MAX_HOST_BYTES: usize = 255;
/// Longest label of a name, in bytes (RFC 1035, section 2.3.4).
const MAX_LABEL_BYTES: usize = 63;
/// Longest name for SNI, in bytes.
const MAX_SERVER_NAME_BYTES: usize = 253;

/// HTTP methods that Octavia supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "UPPERCASE")]
#[clap(rename_all = "UPPER")]
#[expect(missing_docs, reason = "they are the names of the protocol")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Trace,
    Options,
    Connect,
    Patch,
}

impl Method {
    /// The method as written in the request line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Trace => "TRACE",
            Self::Options => "OPTIONS",
            Self::Connect => "CONNECT",
            Self::Patch => "PATCH",
        }
    }

    /// Whether a request without a body needs a Content-Length of 0.
    pub fn wants_length(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// HTTP version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
pub enum Version {
    /// HTTP/1.0
    #[serde(rename = "1.0")]
    #[clap(name = "1.0")]
    Http10,
    /// HTTP/1.1
    #[serde(rename = "1.1")]
    #[clap(name = "1.1")]
    Http11,
}

/// Status codes from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "(u16, u16)")]
pub struct CodeRange {
    /// Lowest code.
    pub first: u16,
    /// Highest code.
    pub last: u16,
}

impl TryFrom<(u16, u16)> for CodeRange {
    type Error = String;

    fn try_from((first, last): (u16, u16)) -> Result<Self, String> {
        if let Some(code) = [first, last].into_iter().find(|c| !(100..=999).contains(c)) {
            return Err(format!("{code} is no status code (100 to 999)"));
        }
        if first > last {
            return Err(format!("{first} is above {last}"));
        }
        Ok(Self { first, last })
    }
}

/// Whether a text is a valid target of a request line.
pub fn is_path(text: &str) -> bool {
    text.starts_with('/')
        && text.len() <= MAX_PATH_BYTES
        && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Whether a text is a valid Host header.
pub fn is_host(text: &str) -> bool {
    (1..=MAX_HOST_BYTES).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

/// Whether a text is a valid server name in a `ClientHello` (RFC 6066, section 3):
/// labels of letters, digits, hyphens and underscores, and no address.
pub fn is_server_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL_BYTES).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= MAX_SERVER_NAME_BYTES
        && text.split('.').all(is_label)
        && !last.bytes().all(|b| b.is_ascii_digit())
}

/// The request of an HTTP check.
///
/// `path` and `host` must have passed [`is_path`] and
/// [`is_host`].
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its method.
    pub method: Method,
    /// Its target.
    pub path: &'a str,
    /// Its version.
    pub version: Version,
    /// Value of the Host header; if missing, HTTP/1.1 sends the address.
    pub host: Option<&'a str>,
}

impl Request<'_> {
    /// The bytes of the request.
    pub(super) fn write(&self, target: SocketAddr, usual_port: u16) -> Box<[u8]> {
        use std::fmt::Write;

        let number = match self.version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        };
        // The fragment after a "#" is not sent (RFC 9110, section 7.1).
        let path = self.path.split('#').next().unwrap_or_default();
        let mut text = format!("{} {path} HTTP/{number}\r\n", self.method.as_str());
        let host = match (self.host, self.version) {
            (Some(host), _) => Some(host.to_owned()),
            (None, Version::Http11) => Some(authority(target, usual_port)),
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
        if self.method.wants_length() {
            text.push_str("Content-Length: 0\r\n");
        }
        text.push_str("\r\n");
        text.into_bytes().into()
    }
}

/// The address for a Host header: with the port only if it is not the default one.
fn authority(target: SocketAddr, usual_port: u16) -> String {
    match target.ip() {
        IpAddr::V4(ip) if target.port() == usual_port => ip.to_string(),
        IpAddr::V6(ip) if target.port() == usual_port => format!("[{ip}]"),
        _ => target.to_string(),
    }
}
