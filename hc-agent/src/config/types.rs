// SPDX-License-Identifier: Apache-2.0
//! The content of a checks file, and the reasons to refuse one.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::probe_spec::{ProbeSpec, ProxyProtocol};
use crate::key::Key;

/// Size limit of a file in bytes, enough for more than a million checks.
pub(super) const MAX_FILE_BYTES: u64 = 256 << 20;
/// Characters that an error keeps of each end of a long text: the beginning of the
/// wrong value, and what was expected.
const MAX_QUOTED_CHARS: usize = 120;

/// One target and how it is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub key: Key,
    /// Where probes go. The port of a ping is 0.
    pub target: SocketAddr,
    /// Mark of the packets of its probes (`SO_MARK`), by which the node's routing and
    /// programs distinguish them from others.
    pub mark: Option<NonZeroU32>,
    /// Version of the PROXY protocol whose header is sent first, if any is.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Time between the starts of two probes.
    pub delay: Duration,
    /// Time after which a probe has failed.
    pub timeout: Duration,
    /// Successes in a row that bring it from down to up.
    pub rise: u8,
    /// Failures in a row that bring it down.
    pub fall: u8,
    /// What a probe does.
    pub probe: ProbeSpec,
}

impl Check {
    /// The target for display, with its mark, which distinguishes checks of one target.
    pub fn aim(&self) -> String {
        match self.mark {
            Some(mark) => format!("{} mark {mark}", self.target),
            None => self.target.to_string(),
        }
    }
}

/// The conjunction of checks, under a key of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its name.
    pub key: Key,
    /// The checks that must be up.
    pub checks: Box<[Key]>,
}

/// Keys that all fail at once only if this node is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// For logs and metrics.
    pub name: Box<str>,
    /// Checks and conditions.
    pub keys: Box<[Key]>,
    /// While fewer than this percentage of keys are not down, none is reported down. 0
    /// disables it.
    pub panic_percent: u8,
}

/// Checks of members that are moving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The checks.
    pub keys: Box<[Key]>,
    /// Time for which a check must fail without a success before it is down.
    pub time: Duration,
}

/// Why a checks file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] std::io::Error),
    /// It is too long.
    #[error("longer than {MAX_FILE_BYTES} bytes")]
    TooLong,
    /// It is not JSON, or a field is missing, unknown or wrong.
    #[error("{path}: {error}")]
    Field {
        /// Where in the document, as `checks[3].http.path`.
        path: String,
        /// What is wrong there.
        error: String,
    },
    /// A file of a directory is wrong.
    #[error("{name}: {error}")]
    File {
        /// Its name.
        name: String,
        /// What is wrong with it.
        error: Box<ConfigError>,
    },
}

impl ConfigError {
    /// An error about a field. Quotes from the file are made printable and short, as
    /// the error ends up in one line of a log.
    pub(super) fn field(path: &str, error: &str) -> Self {
        Self::Field {
            path: quoted(path),
            error: quoted(error),
        }
    }

    /// Whether the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read(e) if e.kind() == std::io::ErrorKind::NotFound)
    }
}

/// Replace control characters, and cut out the middle of a long text.
fn quoted(text: &str) -> String {
    let escape = |c: char| {
        let escaped = c.is_control().then(|| c.escape_default());
        let plain = escaped.is_none().then_some(c);
        escaped.into_iter().flatten().chain(plain)
    };
    let chars: Vec<char> = text.chars().collect();
    let middle = chars.len().saturating_sub(2 * MAX_QUOTED_CHARS);
    let escaped = |part: &[char]| part.iter().copied().flat_map(escape).collect();
    if middle == 0 {
        return escaped(&chars);
    }
    let head: String = escaped(&chars[..MAX_QUOTED_CHARS]);
    let tail: String = escaped(&chars[chars.len() - MAX_QUOTED_CHARS..]);
    format!("{head}… {middle} characters …{tail}")
}

/// The content of a checks file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChecksFile {
    /// What is probed.
    pub checks: Vec<Arc<Check>>,
    /// Conjunctions of checks.
    pub conditions: Vec<Condition>,
    /// Groups of checks and conditions that share a panic threshold.
    pub groups: Vec<Group>,
    /// Checks of members that are moving.
    pub patience: Vec<Patience>,
}

impl ChecksFile {
    /// Return only the checks.
    pub fn into_checks(self) -> Vec<Check> {
        self.checks.into_iter().map(Arc::unwrap_or_clone).collect()
    }
}
