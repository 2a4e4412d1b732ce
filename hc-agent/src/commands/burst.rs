// SPDX-License-Identifier: Apache-2.0
//! `burst`

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::threads::{ProbeArguments, Threads};
use super::{Failed, SourceArguments};
use crate::config;
use crate::schedule::grid;

/// What is probed.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The checks file
    #[arg(long, env = "OCTAVIA_XDP_HC_CHECKS")]
    checks: PathBuf,
    #[command(flatten)]
    probes: ProbeArguments,
    #[command(flatten)]
    source: SourceArguments,
}

/// User and system CPU time of all threads of this process, in seconds.
fn cpu_time() -> Result<(f64, f64), Failed> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)
        .map_err(|e| Failed::because("processor time", e))?;
    #[expect(clippy::cast_precision_loss, reason = "a burst takes no centuries")]
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    Ok((seconds(usage.user_time()), seconds(usage.system_time())))
}

/// Probe every check once, as fast as the limit of concurrent probes permits.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failed> {
    let file = config::load_all(&arguments.checks)
        .map_err(|e| Failed::because(arguments.checks.display(), e))?;
    let all = file.checks.len();
    let events_ready = Arc::new(Notify::new());
    let mut threads = Threads::new(
        &arguments.probes,
        &arguments.source,
        None,
        true,
        &events_ready,
    )?;
    let shards = threads.shards();
    for check in file.checks {
        let (shard, _) = &shards[grid::thread(check.key, shards.len())];
        shard.core().put(check, 0, || None, 0);
    }
    let (start, cpu) = (Instant::now(), cpu_time()?);
    threads.start()?;
    threads.join();
    let (wall, end) = (start.elapsed(), cpu_time()?);

    let (mut failures, mut results) = (0, Map::new());
    for (shard, _) in &shards {
        for (_, reason, number) in shard.take_report(Instant::now()).stats.probes {
            let name = reason.name();
            if name != "none" {
                failures += number;
            }
            let name = if name == "none" { "success" } else { name };
            let sum = results.get(name).and_then(Value::as_u64).unwrap_or(0);
            results.insert(name.to_owned(), json!(sum + number));
        }
    }
    let line = json!({
        "checks": all,
        "threads": shards.len(),
        "wall_s": wall.as_secs_f64(),
        "user_s": end.0 - cpu.0,
        "system_s": end.1 - cpu.1,
        "failures": failures,
        "results": results,
        "max_rss_kb": peak_rss_kb(),
    });
    let _ = writeln!(stdout(), "{line}");
    Ok(ExitCode::SUCCESS)
}

/// Peak resident memory of this process, in kilobytes.
fn peak_rss_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
