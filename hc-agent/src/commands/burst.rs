// SPDX-License-Identifier: Apache-2.0
//! `burst`

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::threads::{ProbeArguments, Threads};
use super::{Failed, SourceArguments};
use crate::config;
use crate::schedule;

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

/// Processor time of all threads of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Probe every check once, as fast as the probes at a time permit.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failed> {
    let wanted = config::load_all(&arguments.checks)
        .map_err(|e| Failed::because(arguments.checks.display(), e))?;
    let all = wanted.checks.len();
    let news = Arc::new(Notify::new());
    let mut threads =
        Threads::new(&arguments.probes, &arguments.source, None, true, &news)?;
    let shards = threads.shards();
    for check in wanted.checks {
        let (shard, _) = &shards[schedule::thread(check.key, shards.len())];
        shard.core().put(check, 0, || None, 0);
    }
    let (start, cpu) = (Instant::now(), cpu_time());
    threads.start()?;
    threads.join();
    let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));

    let (mut failures, mut results) = (0, Map::new());
    for (shard, _) in &shards {
        for (_, reason, number) in shard.take_news(Instant::now()).tally.probes {
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
        "cpu_s": cpu.as_secs_f64(),
        "failures": failures,
        "results": results,
        "peak_rss_kb": peak_rss_kb(),
    });
    let _ = writeln!(stdout(), "{line}");
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Most memory that this process ever had, in kilobytes.
fn peak_rss_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
