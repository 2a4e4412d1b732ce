// SPDX-License-Identifier: Apache-2.0
//! The document of a checks file. Every field is parsed strictly, so that an error
//! carries the path of the wrong field.

use std::net::IpAddr;
use std::num::{NonZeroU16, NonZeroU32};

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};

use super::probe_spec::ProxyProtocol;
use super::request::{
    CodeRange, Method, Request, Version, is_host, is_path, is_server_name,
};
use crate::key::Key;

/// The only supported version of the document.
const VERSION: u64 = 1;
/// Largest number of seconds, as in the JSON schema.
const MAX_SECONDS: u64 = 2_147_483_647;
/// Largest rise or fall.
const MAX_THRESHOLD: u64 = 10;
/// Seconds of patience, at most.
const MAX_PATIENCE: u64 = 3600;
/// Ranges of status codes of a check, at most.
const MAX_RANGES: usize = 900;

/// Characters of the name of a group, at most.
const MAX_NAME: usize = 255;

/// A JSON object. Serde alone would also accept an array for a struct.
pub(super) struct Object<T>(pub(super) T);

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

/// One entry of `checks`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckDocument {
    #[serde(deserialize_with = "key")]
    pub(super) key: Key,
    #[serde(rename = "type")]
    pub(super) kind: CheckType,
    #[serde(deserialize_with = "address")]
    pub(super) address: IpAddr,
    #[serde(default, deserialize_with = "some")]
    pub(super) port: Option<NonZeroU16>,
    #[serde(default, deserialize_with = "some")]
    pub(super) mark: Option<NonZeroU32>,
    #[serde(default, deserialize_with = "proxy_protocol")]
    pub(super) proxy_protocol: Option<ProxyProtocol>,
    #[serde(rename = "delay", deserialize_with = "seconds")]
    pub(super) delay_s: u64,
    #[serde(rename = "timeout", deserialize_with = "seconds")]
    pub(super) timeout_s: u64,
    #[serde(deserialize_with = "threshold")]
    pub(super) rise: u8,
    #[serde(deserialize_with = "threshold")]
    pub(super) fall: u8,
    #[serde(default, deserialize_with = "present")]
    pub(super) http: Option<HttpDocument>,
    #[serde(default, deserialize_with = "present")]
    pub(super) tls: Option<TlsDocument>,
}

/// The field `type` of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CheckType {
    Ping,
    Tcp,
    Http,
    Https,
    TlsHello,
    UdpConnect,
    Sctp,
}

impl CheckType {
    pub(super) fn name(self) -> &'static str {
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

/// The field `tls` of a check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsDocument {
    #[serde(deserialize_with = "server_name")]
    pub(super) server_name: Option<String>,
}

/// The field `http` of a check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpDocument {
    pub(super) method: Method,
    #[serde(deserialize_with = "path")]
    pub(super) path: String,
    pub(super) version: Version,
    #[serde(deserialize_with = "host")]
    pub(super) host: Option<String>,
    #[serde(deserialize_with = "codes")]
    pub(super) expected_codes: Vec<CodeRange>,
}

impl HttpDocument {
    /// The request, and the accepted status codes.
    pub(super) fn parts(&self) -> (Request<'_>, Vec<CodeRange>) {
        let request = Request {
            method: self.method,
            path: &self.path,
            version: self.version,
            host: self.host.as_deref(),
        };
        (request, self.expected_codes.clone())
    }
}

/// One entry of `conditions`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConditionDocument {
    #[serde(deserialize_with = "key")]
    pub(super) key: Key,
    #[serde(deserialize_with = "keys")]
    pub(super) checks: Vec<Key>,
}

/// One entry of `groups`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupDocument {
    #[serde(deserialize_with = "group_name")]
    pub(super) name: String,
    #[serde(deserialize_with = "keys")]
    pub(super) checks: Vec<Key>,
    #[serde(deserialize_with = "percent")]
    pub(super) panic_percent: u8,
}

/// One entry of `patience`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PatienceDocument {
    #[serde(deserialize_with = "patience")]
    pub(super) seconds: u64,
    #[serde(deserialize_with = "keys")]
    pub(super) checks: Vec<Key>,
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

/// Parse the version of a document, which must be the supported one.
pub(super) fn version<'de, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
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

fn patience<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    number(from, MAX_PATIENCE)
}

fn threshold<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    let number = number(from, MAX_THRESHOLD)?;
    u8::try_from(number).map_err(Error::custom)
}

fn proxy_protocol<'de, D>(from: D) -> Result<Option<ProxyProtocol>, D::Error>
where
    D: Deserializer<'de>,
{
    Ok(Some(match number(from, 2)? {
        1 => ProxyProtocol::V1,
        _ => ProxyProtocol::V2,
    }))
}

/// A field that may be missing, but not null.
fn some<'de, D: Deserializer<'de>, T>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
{
    T::deserialize(from).map(Some)
}

/// An object that may be missing, but not null.
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
    optional_name(from, is_host)
}

fn server_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    optional_name(from, is_server_name)
}

/// Null, or a text that passes the given check.
fn optional_name<'de, D: Deserializer<'de>>(
    from: D,
    is_name: fn(&str) -> bool,
) -> Result<Option<String>, D::Error> {
    match Option::<String>::deserialize(from)? {
        Some(text) if !is_name(&text) => Err(Error::invalid_value(
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

fn keys<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Key>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    if texts.is_empty() {
        return Err(Error::invalid_length(0, &"at least one key"));
    }
    let parse = |text: String| text.parse().map_err(Error::custom);
    texts.into_iter().map(parse).collect()
}

fn group_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
    {
        Ok(text)
    } else {
        Err(Error::custom(
            "a name is 1 to 255 printable ASCII characters without spaces",
        ))
    }
}

fn percent<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    match u8::deserialize(from)? {
        percent @ 0..=100 => Ok(percent),
        other => Err(Error::custom(format_args!(
            "{other} is not between 0 and 100"
        ))),
    }
}
