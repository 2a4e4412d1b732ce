// SPDX-License-Identifier: Apache-2.0
//! `status`

use std::collections::HashMap;
use std::io::{self, BufWriter, Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Failed;
use crate::config::{self, Check};
use crate::key::Key;
use crate::queue::directory::read_snapshot;
use crate::queue::format::QueueFile;

/// What is shown.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The result queue
    #[arg(long, env = "OCTAVIA_XDP_HC_QUEUE")]
    queue: PathBuf,
    /// The checks file, to show targets beside keys
    #[arg(long, env = "OCTAVIA_XDP_HC_CHECKS")]
    checks: Option<PathBuf>,
}

/// Print a table of the last states.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failed> {
    let place = arguments.queue.display();
    let mut snapshot = read_snapshot(&arguments.queue)
        .map_err(|e| Failed::because(&place, e))?
        .map_err(|e| Failed::because(&place, e))?;
    snapshot.records.sort_unstable_by_key(|record| record.key);
    let checks = match &arguments.checks {
        Some(path) => {
            config::load(path).map_err(|e| Failed::because(path.display(), e))?
        }
        None => Vec::new(),
    };
    let checks: HashMap<_, _> = checks.iter().map(|check| (check.key, check)).collect();
    match print(&snapshot, &checks) {
        // A reader such as head may have seen enough.
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failed(e.to_string())),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn print(snapshot: &QueueFile, checks: &HashMap<Key, &Check>) -> io::Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    writeln!(
        out,
        "boot {:016x}, {} changes reported, {} checks",
        snapshot.boot,
        snapshot.last_sequence,
        snapshot.records.len()
    )?;
    writeln!(
        out,
        "{:16}  {:7}  {:8}  {:11}  {:6}  {:>12}  TARGET",
        "KEY", "STATE", "VERIFIED", "REASON", "STATUS", "SINCE"
    )?;
    for record in &snapshot.records {
        let status = match record.detail {
            0 => "-".to_owned(),
            code => code.to_string(),
        };
        let target = checks.get(&record.key).map_or_else(
            || "-".to_owned(),
            |check| format!("{} {}", check.kind.name(), check.target),
        );
        writeln!(
            out,
            "{}  {:7}  {:8}  {:11}  {status:6}  {:>12}  {target}",
            record.key,
            record.state.name(),
            if record.verified { "yes" } else { "no" },
            record.reason.name(),
            age(record.time_ns),
        )?;
    }
    out.flush()
}

/// Time since a moment in nanoseconds since 1970.
fn age(time_ns: u64) -> String {
    if time_ns == 0 {
        return "-".to_owned();
    }
    let then = UNIX_EPOCH + Duration::from_nanos(time_ns);
    let age = SystemTime::now().duration_since(then).unwrap_or_default();
    match age.as_secs() {
        0 => format!("{} ms", age.as_millis()),
        s @ 1..=119 => format!("{s} s"),
        s @ 120..=7199 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}
