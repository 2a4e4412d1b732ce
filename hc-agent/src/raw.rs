// SPDX-License-Identifier: Apache-2.0
//! The checks file as it is spelled: every field read strictly, so that an error
//! carries the path of the field that is wrong.

use std::net::IpAddr;
use std::num::{NonZeroU16, NonZeroU32};

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

use crate::config::Checks;
use crate::config::Request;
use crate::key::Key;
use crate::together::{RawCondition, RawGroup};

const VERSION: u64 = 1;
const MAX_SECONDS: u64 = 2_147_483_647;
const MAX_THRESHOLD: u64 = 10;
const MAX_PATH: usize = 2048;
const MAX_HOST: usize = 255;
const MAX_LABEL: usize = 63;
const MAX_SERVER_NAME: usize = 253;
const MAX_RANGES: usize = 900;

/// A JSON object. Serde alone would take an array for a struct as well.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OnlyMaps<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyMaps<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        from.deserialize_map(OnlyMaps(std::marker::PhantomData))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    #[serde(rename = "version", deserialize_with = "version")]
    pub(crate) _version: (),
    pub(crate) checks: Checks,
    #[serde(default)]
    pub(crate) conditions: Vec<Object<RawCondition>>,
    #[serde(default)]
    pub(crate) groups: Vec<Object<RawGroup>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    #[serde(deserialize_with = "key")]
    pub(crate) key: Key,
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    #[serde(deserialize_with = "address")]
    pub(crate) address: IpAddr,
    #[serde(default, deserialize_with = "some")]
    pub(crate) port: Option<NonZeroU16>,
    #[serde(default, deserialize_with = "some")]
    pub(crate) mark: Option<NonZeroU32>,
    #[serde(deserialize_with = "seconds")]
    pub(crate) delay: u64,
    #[serde(deserialize_with = "seconds")]
    pub(crate) timeout: u64,
    #[serde(deserialize_with = "threshold")]
    pub(crate) rise: u8,
    #[serde(deserialize_with = "threshold")]
    pub(crate) fall: u8,
    #[serde(default, deserialize_with = "present")]
    pub(crate) http: Option<Http>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) tls: Option<Tls>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Ping,
    Tcp,
    Http,
    Https,
    TlsHello,
    UdpConnect,
    Sctp,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Tcp => "tcp",
            Self::Http => "http",
            Self::Https => "https",
            Self::TlsHello => "tls-hello",
            Self::UdpConnect => "udp-connect",
            Self::Sctp => "sctp",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    #[serde(deserialize_with = "server_name")]
    pub(crate) server_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Http {
    pub(crate) method: Method,
    #[serde(deserialize_with = "path")]
    pub(crate) path: String,
    pub(crate) version: Version,
    #[serde(deserialize_with = "host")]
    pub(crate) host: Option<String>,
    #[serde(deserialize_with = "codes")]
    pub(crate) expected_codes: Vec<CodeRange>,
}

impl Http {
    /// What is sent, and what is accepted.
    pub(crate) fn parts(&self) -> (Request<'_>, Vec<CodeRange>) {
        let request = Request {
            method: self.method,
            path: &self.path,
            version: self.version,
            host: self.host.as_deref(),
        };
        (request, self.expected_codes.clone())
    }
}

/// Methods that Octavia knows.
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
    /// As it stands in the request line.
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

    /// Whether a request without a body should say that it has none.
    pub fn wants_length(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// Version of HTTP that a request speaks.
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

/// Whether a text can stand in a request line as its target.
pub fn is_path(text: &str) -> bool {
    text.starts_with('/')
        && text.len() <= MAX_PATH
        && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Whether a text can stand in a Host header.
pub fn is_host(text: &str) -> bool {
    (1..=MAX_HOST).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

/// Whether a text can stand in a `ClientHello` as the name of the server (RFC 6066,
/// section 3): labels of letters, digits, hyphens and underscores, and no address.
pub fn is_server_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= MAX_SERVER_NAME
        && text.split('.').all(is_label)
        && !last.bytes().all(|b| b.is_ascii_digit())
}

fn number<'de, D: Deserializer<'de>>(from: D, max: u64) -> Result<u64, D::Error> {
    let number = u64::deserialize(from)?;
    if (1..=max).contains(&number) {
        Ok(number)
    } else {
        Err(Error::custom(format_args!(
            "{number} is not between 1 and {max}"
        )))
    }
}

fn version<'de, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
    match u64::deserialize(from)? {
        VERSION => Ok(()),
        other => Err(Error::custom(format_args!(
            "version {other} is unknown, {VERSION} is supported"
        ))),
    }
}

fn key<'de, D: Deserializer<'de>>(from: D) -> Result<Key, D::Error> {
    String::deserialize(from)?.parse().map_err(Error::custom)
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<IpAddr, D::Error> {
    let text = String::deserialize(from)?;
    text.parse()
        .map_err(|_| Error::invalid_value(Unexpected::Str(&text), &"an IP address"))
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    number(from, MAX_SECONDS)
}

fn threshold<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    let number = number(from, MAX_THRESHOLD)?;
    u8::try_from(number).map_err(Error::custom)
}

/// A field that may be missing, but not null.
fn some<'de, D: Deserializer<'de>, T>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
{
    T::deserialize(from).map(Some)
}

/// The same for an object.
fn present<'de, D: Deserializer<'de>, T>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
{
    Object::deserialize(from).map(|object| Some(object.0))
}

fn path<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if is_path(&text) {
        Ok(text)
    } else {
        Err(Error::invalid_value(
            Unexpected::Str(&text),
            &"a slash and printable ASCII without spaces, 2048 bytes at most",
        ))
    }
}

fn host<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Option::<String>::deserialize(from)? {
        Some(text) if !is_host(&text) => Err(Error::invalid_value(
            Unexpected::Str(&text),
            &"null or a host name",
        )),
        host => Ok(host),
    }
}

fn server_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Option::<String>::deserialize(from)? {
        Some(text) if !is_server_name(&text) => Err(Error::invalid_value(
            Unexpected::Str(&text),
            &"null or a host name",
        )),
        name => Ok(name),
    }
}

fn codes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<CodeRange>, D::Error> {
    let ranges = Vec::deserialize(from)?;
    if (1..=MAX_RANGES).contains(&ranges.len()) {
        Ok(ranges)
    } else {
        Err(Error::invalid_length(ranges.len(), &"1 to 900 ranges"))
    }
}
