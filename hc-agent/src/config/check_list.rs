// SPDX-License-Identifier: Apache-2.0
//! The checks of a checks file, built while the document is parsed.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use super::document::{CheckDocument, CheckType, Object};
use super::probe_spec::{HttpSpec, HttpsSpec, ProbeSpec, SharedSpecs, TlsHelloSpec};
use super::types::{Check, ConfigError};

/// The checks of a file, or the first error.
pub(super) struct CheckList(Result<Vec<Arc<Check>>, ConfigError>);

impl CheckList {
    /// Return the checks, or the error of the first invalid one.
    pub(super) fn into_checks(self) -> Result<Vec<Arc<Check>>, ConfigError> {
        let checks = self.0?;
        refuse_duplicate_keys(&checks)?;
        Ok(checks)
    }
}

impl<'de> Deserialize<'de> for CheckList {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = CheckList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut all: A,
            ) -> Result<CheckList, A::Error> {
                let mut checks = Vec::new();
                let mut specs = SharedSpecs::default();
                let mut refused = None;
                for place in 0.. {
                    let Some(Object(check)) = all.next_element()? else {
                        break;
                    };
                    // After an error, only parse on to find errors of the document.
                    if refused.is_none() {
                        match build(place, check, &mut specs) {
                            Ok(check) => checks.push(Arc::new(check)),
                            Err(error) => refused = Some(error),
                        }
                    }
                }
                Ok(CheckList(refused.map_or(Ok(checks), Err)))
            }
        }

        from.deserialize_seq(List)
    }
}

fn build(
    place: usize,
    check: CheckDocument,
    specs: &mut SharedSpecs,
) -> Result<Check, ConfigError> {
    let fields = Fields {
        place,
        kind: check.kind,
    };
    let speaks_http = matches!(check.kind, CheckType::Http | CheckType::Https);
    let speaks_tls = matches!(check.kind, CheckType::Https | CheckType::TlsHello);
    fields.refuse("http", !speaks_http && check.http.is_some())?;
    fields.refuse("tls", !speaks_tls && check.tls.is_some())?;
    let connects = speaks_http || speaks_tls || check.kind == CheckType::Tcp;
    fields.refuse(
        "proxy_protocol",
        !connects && check.proxy_protocol.is_some(),
    )?;
    let port = if check.kind == CheckType::Ping {
        fields.refuse("port", check.port.is_some())?;
        0
    } else {
        fields.need("port", check.port)?.get()
    };
    let target = SocketAddr::new(check.address, port);
    let probe = match check.kind {
        CheckType::Ping => ProbeSpec::Ping,
        CheckType::Tcp => ProbeSpec::Tcp,
        CheckType::Http => {
            let http = fields.need("http", check.http)?;
            let (request, codes) = http.parts();
            ProbeSpec::Http(specs.http(HttpSpec::with(target, &request, codes)))
        }
        CheckType::Https => {
            let http = fields.need("http", check.http)?;
            let tls = fields.need("tls", check.tls)?;
            let (request, codes) = http.parts();
            let name = tls.server_name.as_deref();
            ProbeSpec::Https(specs.https(HttpsSpec::new(target, &request, codes, name)))
        }
        CheckType::TlsHello => {
            let tls = fields.need("tls", check.tls)?;
            ProbeSpec::TlsHello(
                specs.hello(TlsHelloSpec::new(tls.server_name.as_deref())),
            )
        }
        CheckType::UdpConnect => ProbeSpec::UdpConnect,
        CheckType::Sctp => ProbeSpec::Sctp,
    };
    Ok(Check {
        key: check.key,
        target,
        mark: check.mark,
        proxy_protocol: check.proxy_protocol,
        delay: Duration::from_secs(check.delay_s),
        timeout: Duration::from_secs(check.timeout_s),
        rise: check.rise,
        fall: check.fall,
        probe,
    })
}

/// Fields that some types of checks need and the others must not have.
struct Fields {
    place: usize,
    kind: CheckType,
}

impl Fields {
    fn error(&self, name: &str, how: &str) -> ConfigError {
        ConfigError::field(
            &format!("checks[{}].{name}", self.place),
            &format!("{how} for a check of type {}", self.kind.name()),
        )
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

/// Keys identify checks, so each must be unique.
fn refuse_duplicate_keys(checks: &[Arc<Check>]) -> Result<(), ConfigError> {
    let keys = checks.iter().map(|check| check.key);
    let mut places: Vec<_> = keys.zip(0usize..).collect();
    places.sort_unstable();
    let equal = places.windows(2).filter(|two| two[0].0 == two[1].0);
    match equal.min_by_key(|two| two[1].1) {
        None => Ok(()),
        Some(two) => Err(ConfigError::field(
            &format!("checks[{}].key", two[1].1),
            &format!("{} is also the key of checks[{}]", two[1].0, two[0].1),
        )),
    }
}
