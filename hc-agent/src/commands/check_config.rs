// SPDX-License-Identifier: Apache-2.0
//! `check-config`

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use super::Failed;
use crate::config::{self, Check, ProbeSpec};
use crate::probe::Source;

/// What is checked.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The checks file, or the directory of checks files
    file: PathBuf,
}

impl Arguments {
    /// Check this file.
    pub fn new(file: PathBuf) -> Self {
        Self { file }
    }
}

/// Read the file as `run` would.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failed> {
    let checks = config::load_all(&arguments.file)
        .map(config::ChecksFile::into_checks)
        .map_err(|e| Failed::because(arguments.file.display(), e))?;
    let mut out = stdout().lock();
    let _ = writeln!(out, "{}: {}", arguments.file.display(), summary(&checks));
    for warning in warnings(&checks, &Source::default()) {
        let _ = writeln!(out, "warning: {warning}");
    }
    Ok(ExitCode::SUCCESS)
}

/// For example `3 checks (2 tcp, 1 http), 0.6 probes a second`.
fn summary(checks: &[Check]) -> String {
    let counts: Vec<String> = ProbeSpec::NAMES
        .iter()
        .map(|name| {
            (
                checks.iter().filter(|c| c.probe.name() == *name).count(),
                name,
            )
        })
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let counts = if counts.is_empty() {
        String::new()
    } else {
        format!(" ({})", counts.join(", "))
    };
    let rate = checks
        .iter()
        .fold(0.0, |sum, check| sum + 1.0 / check.delay.as_secs_f64());
    format!("{} checks{counts}, {rate:.1} probes a second", checks.len())
}

/// Describe the probes for which this process lacks privileges; `run` may have them.
fn warnings(checks: &[Check], source: &Source) -> Vec<String> {
    let mut warnings = Vec::new();
    for ipv4 in [true, false] {
        let family = if ipv4 { "IPv4" } else { "IPv6" };
        let count = |wanted: &ProbeSpec| {
            let all = checks.iter();
            all.filter(|c| c.target.is_ipv4() == ipv4 && c.probe == *wanted)
                .count()
        };
        let pings = count(&ProbeSpec::Ping);
        if pings > 0
            && let Some(error) = source.ping_error(ipv4)
        {
            warnings.push(format!(
                "{pings} ping checks over {family}: {error}; the checker needs \
                 CAP_NET_RAW, or its group in net.ipv4.ping_group_range"
            ));
        }
        let associations = count(&ProbeSpec::Sctp);
        if associations > 0
            && let Some(error) = source.sctp_error(ipv4)
        {
            warnings.push(format!(
                "{associations} sctp checks over {family}: {error}; the checker needs \
                 CAP_NET_RAW"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_the_types_that_are_there() {
        assert_eq!(summary(&[]), "0 checks, 0.0 probes a second");
        let text = br#"{"version": 1, "checks": [
            {"key": "0000000000000001", "type": "ping", "address": "198.18.0.1",
             "delay": 2, "timeout": 1, "rise": 1, "fall": 1},
            {"key": "0000000000000002", "type": "sctp", "address": "198.18.0.1",
             "port": 9, "delay": 2, "timeout": 1, "rise": 1, "fall": 1}]}"#;
        let checks = config::parse(text).unwrap().into_checks();
        let text = "2 checks (1 ping, 1 sctp), 1.0 probes a second";
        assert_eq!(summary(&checks), text);
        // There are at most two warnings, whatever the privileges.
        assert!(warnings(&checks, &Source::default()).len() <= 2);
    }
}
