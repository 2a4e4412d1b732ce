// SPDX-License-Identifier: Apache-2.0
//! The checks file: what is probed, and how.
//!
//! A file is taken whole or refused whole. `checks.schema.json` describes it and
//! `checks-vectors.json` holds examples that both languages test.

mod kind;

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use crate::compose::{Condition, Group};
use crate::config::kind::Details;
pub use crate::config::kind::{HttpCheck, HttpsCheck, Kind, Request, TlsHelloCheck};
use crate::key::Key;
use crate::raw::{self, Object};
pub use crate::raw::{CodeRange, Method, Version, is_host, is_path, is_server_name};
use crate::together;

/// A file above this size, in bytes, is refused: more than a million checks.
pub(crate) const MAX_FILE: u64 = 256 << 20;

/// One target and how it is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub key: Key,
    /// Where probes go. The port of a ping is 0.
    pub target: SocketAddr,
    /// Mark of the packets of its probes (`SO_MARK`), by which the node's routing and
    /// programs tell them from others.
    pub mark: Option<NonZeroU32>,
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

impl Check {
    /// Where probes go, for people: of the checks with one target, the mark tells.
    pub fn aim(&self) -> String {
        match self.mark {
            Some(mark) => format!("{} mark {mark}", self.target),
            None => self.target.to_string(),
        }
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

/// All that a checks file asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// What is probed.
    pub checks: Vec<Arc<Check>>,
    /// Conjunctions of checks.
    pub conditions: Vec<Condition>,
    /// Checks and conditions that are guarded together.
    pub groups: Vec<Group>,
}

impl Wanted {
    /// The checks alone.
    pub(crate) fn into_checks(self) -> Vec<Check> {
        self.checks.into_iter().map(Arc::unwrap_or_clone).collect()
    }
}

/// Read the checks of a checks file.
pub fn load(path: &Path) -> Result<Vec<Check>, ConfigError> {
    load_all(path).map(Wanted::into_checks)
}

/// Read a checks file, without ever holding its text: that of many checks is longer
/// than all that is kept of them.
pub fn load_all(path: &Path) -> Result<Wanted, ConfigError> {
    let file = File::open(path)?;
    if file.metadata()?.len() > MAX_FILE {
        return Err(ConfigError::TooLong);
    }
    let reader = BufReader::with_capacity(1 << 16, file.take(MAX_FILE));
    read(serde_json::Deserializer::from_reader(reader))
}

/// Read the checks in the text of a checks file.
pub fn parse(text: &[u8]) -> Result<Vec<Check>, ConfigError> {
    parse_all(text).map(Wanted::into_checks)
}

/// Read the text of a checks file.
pub fn parse_all(text: &[u8]) -> Result<Wanted, ConfigError> {
    read(serde_json::Deserializer::from_slice(text))
}

fn read<'de, R: serde_json::de::Read<'de>>(
    mut reader: serde_json::Deserializer<R>,
) -> Result<Wanted, ConfigError> {
    let Object(file): Object<raw::File> = serde_path_to_error::deserialize(&mut reader)
        .map_err(|e| ConfigError::Field {
        path: e.path().to_string(),
        error: e.into_inner().to_string(),
    })?;
    reader.end().map_err(|e| ConfigError::Field {
        path: "document".to_owned(),
        error: e.to_string(),
    })?;
    let checks = file.checks.0?;
    refuse_equal_keys(&checks)?;
    let (conditions, groups) = together::build(&checks, file.conditions, file.groups)?;
    Ok(Wanted {
        checks,
        conditions,
        groups,
    })
}

fn refuse_equal_keys(checks: &[Arc<Check>]) -> Result<(), ConfigError> {
    let keys = checks.iter().map(|check| check.key);
    let mut places: Vec<_> = keys.zip(0usize..).collect();
    places.sort_unstable();
    let equal = places.windows(2).filter(|two| two[0].0 == two[1].0);
    match equal.min_by_key(|two| two[1].1) {
        None => Ok(()),
        Some(two) => Err(ConfigError::Field {
            path: format!("checks[{}].key", two[1].1),
            error: format!("{} is also the key of checks[{}]", two[1].0, two[0].1),
        }),
    }
}

/// The checks of a file, each made as it is read.
pub(crate) struct Checks(Result<Vec<Arc<Check>>, ConfigError>);

impl<'de> Deserialize<'de> for Checks {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Checks;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut all: A,
            ) -> Result<Checks, A::Error> {
                let mut checks = Vec::new();
                let mut details = Details::default();
                let mut refused = None;
                for place in 0.. {
                    let Some(Object(check)) = all.next_element()? else {
                        break;
                    };
                    // After an error for errors of the document alone.
                    if refused.is_none() {
                        match build(place, check, &mut details) {
                            Ok(check) => checks.push(Arc::new(check)),
                            Err(error) => refused = Some(error),
                        }
                    }
                }
                Ok(Checks(refused.map_or(Ok(checks), Err)))
            }
        }

        from.deserialize_seq(List)
    }
}

fn build(
    place: usize,
    check: raw::Check,
    details: &mut Details,
) -> Result<Check, ConfigError> {
    let fields = Fields {
        place,
        kind: check.kind,
    };
    let speaks_http = matches!(check.kind, raw::Kind::Http | raw::Kind::Https);
    let speaks_tls = matches!(check.kind, raw::Kind::Https | raw::Kind::TlsHello);
    fields.refuse("http", !speaks_http && check.http.is_some())?;
    fields.refuse("tls", !speaks_tls && check.tls.is_some())?;
    let port = if check.kind == raw::Kind::Ping {
        fields.refuse("port", check.port.is_some())?;
        0
    } else {
        fields.need("port", check.port)?.get()
    };
    let target = SocketAddr::new(check.address, port);
    let kind = match check.kind {
        raw::Kind::Ping => Kind::Ping,
        raw::Kind::Tcp => Kind::Tcp,
        raw::Kind::Http => {
            let http = fields.need("http", check.http)?;
            let (request, codes) = http.parts();
            Kind::Http(details.http(HttpCheck::with(target, &request, codes)))
        }
        raw::Kind::Https => {
            let http = fields.need("http", check.http)?;
            let tls = fields.need("tls", check.tls)?;
            let (request, codes) = http.parts();
            let name = tls.server_name.as_deref();
            Kind::Https(details.https(HttpsCheck::new(target, &request, codes, name)))
        }
        raw::Kind::TlsHello => {
            let tls = fields.need("tls", check.tls)?;
            Kind::TlsHello(details.hello(TlsHelloCheck::new(tls.server_name.as_deref())))
        }
        raw::Kind::UdpConnect => Kind::UdpConnect,
        raw::Kind::Sctp => Kind::Sctp,
    };
    Ok(Check {
        key: check.key,
        target,
        mark: check.mark,
        delay: Duration::from_secs(check.delay),
        timeout: Duration::from_secs(check.timeout),
        rise: check.rise,
        fall: check.fall,
        kind,
    })
}

/// Fields that some types of checks need and the others must not have.
struct Fields {
    place: usize,
    kind: raw::Kind,
}

impl Fields {
    fn error(&self, name: &str, how: &str) -> ConfigError {
        ConfigError::Field {
            path: format!("checks[{}].{name}", self.place),
            error: format!("{how} for a check of type {}", self.kind.name()),
        }
    }

    fn need<T>(&self, name: &str, value: Option<T>) -> Result<T, ConfigError> {
        value.ok_or_else(|| self.error(name, "missing"))
    }

    fn refuse(&self, name: &str, present: bool) -> Result<(), ConfigError> {
        if present {
            return Err(self.error(name, "not"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
