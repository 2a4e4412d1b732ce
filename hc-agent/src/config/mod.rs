// SPDX-License-Identifier: Apache-2.0
//! Checks files: what is probed, and how.
//!
//! A file is accepted or refused as a whole, independently of others in its directory.
//! `checks.schema.json` describes it and `checks-vectors.json` holds examples that both
//! languages test.

mod check_list;
mod directory;
mod document;
mod groups;
mod load;
pub mod marks;
mod patience;
mod probe_spec;
mod request;
mod types;

pub use self::directory::{Reader, Reading, has_marks, load_all};
pub use self::load::parse;
pub use self::patience::by_key as patience_by_key;
pub use self::probe_spec::{HttpSpec, HttpsSpec, ProbeSpec, ProxyProtocol, TlsHelloSpec};
pub use self::request::{
    CodeRange, Method, Request, Version, is_host, is_path, is_server_name,
};
pub use self::types::{Check, ChecksFile, Condition, ConfigError, Group, Patience};

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod tests;
