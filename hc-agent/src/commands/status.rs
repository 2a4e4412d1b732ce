// SPDX-License-Identifier: Apache-2.0
//! `status`

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, BufWriter, Write, stderr, stdout};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Failed;
use crate::config::{self, Check};
use crate::key::Key;
use crate::queue::directory::read_snapshot;
use crate::queue::format::QueueFile;
use crate::shard::live_table::{Row, Summary};
use crate::state::State;

/// What is shown.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("from").required(true).multiple(true))]
pub struct Arguments {
    /// The socket of a running checker, for the live table
    #[arg(long, env = "OCTAVIA_XDP_HC_SOCKET", group = "from")]
    socket: Option<PathBuf>,
    /// The result queue: its snapshot is shown if there is no live table
    #[arg(long, env = "OCTAVIA_XDP_HC_QUEUE", group = "from")]
    queue: Option<PathBuf>,
    /// The checks file, to show targets with the keys of a snapshot
    #[arg(long, env = "OCTAVIA_XDP_HC_CHECKS")]
    checks: Option<PathBuf>,
    /// Only checks that are not up
    #[arg(long)]
    problems: bool,
    /// Print the checker's lines unchanged, as JSON
    #[arg(long)]
    json: bool,
    /// Repeat every so many seconds, until interrupted
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    watch: Option<u32>,
}

/// Print the table, live if possible.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failed> {
    loop {
        let shown = match (&arguments.socket, &arguments.queue) {
            (Some(socket), queue) => match UnixStream::connect(socket) {
                Ok(stream) => live(&stream, arguments)
                    .map_err(|e| Shown::of(e, &socket.display().to_string())),
                Err(error) => match queue {
                    Some(queue) => {
                        let place = socket.display();
                        let _ = writeln!(stderr(), "{place}: {error}: the snapshot:");
                        snapshot(queue, arguments)
                    }
                    None => Err(Shown::of(error, &socket.display().to_string())),
                },
            },
            (None, Some(queue)) => snapshot(queue, arguments),
            (None, None) => Ok(()),
        };
        match (shown, arguments.watch) {
            (Err(Shown::Failed(failed)), _) => return Err(failed),
            (Err(Shown::Enough), _) | (Ok(()), None) => return Ok(ExitCode::SUCCESS),
            (Ok(()), Some(seconds)) => {
                #[expect(clippy::disallowed_methods, reason = "this probes nothing")]
                std::thread::sleep(Duration::from_secs(seconds.into()));
                let _ = write!(stdout(), "\x1b[H\x1b[2J");
            }
        }
    }
}

/// Why the output ends.
enum Shown {
    /// The reader, such as head, closed the pipe.
    Enough,
    Failed(Failed),
}

impl Shown {
    fn of(error: io::Error, what: &str) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Enough,
            _ => Self::Failed(Failed::because(what, error)),
        }
    }
}

fn snapshot(queue: &Path, arguments: &Arguments) -> Result<(), Shown> {
    let place = queue.display();
    let mut snapshot = read_snapshot(queue)
        .map_err(|e| Shown::Failed(Failed::because(&place, e)))?
        .map_err(|e| Shown::Failed(Failed::because(&place, e)))?;
    snapshot.records.sort_unstable_by_key(|record| record.key);
    if arguments.problems {
        snapshot.records.retain(|record| record.state != State::Up);
    }
    let checks = match &arguments.checks {
        Some(path) => config::Reader::for_display(path.clone())
            .read()
            .map_err(|e| Shown::Failed(Failed::because(path.display(), e)))?
            .file
            .into_checks(),
        None => Vec::new(),
    };
    let checks: HashMap<_, _> = checks.iter().map(|check| (check.key, check)).collect();
    print(&snapshot, &checks).map_err(|e| Shown::of(e, "output"))
}

fn live(stream: &UnixStream, arguments: &Arguments) -> io::Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    let mut lines = BufReader::new(stream).lines();
    let head = lines.next().transpose()?.unwrap_or_default();
    if arguments.json {
        writeln!(out, "{head}")?;
    } else {
        summarize(&mut out, &serde_json::from_str(&head)?)?;
    }
    for line in lines {
        let line = line?;
        let row: Row = serde_json::from_str(&line)?;
        if arguments.problems && row.state == "up" {
            continue;
        }
        if arguments.json {
            writeln!(out, "{line}")?;
            continue;
        }
        let verified = if row.verified { ' ' } else { '?' };
        writeln!(
            out,
            "{}  {:7}{verified} {:8}  {:11}  {:6}  {:>9.1}  {:>8.1}  {:>7}  {:11} {}",
            row.key,
            row.state,
            row.results,
            row.reason,
            match row.detail {
                0 => "-".to_owned(),
                code => code.to_string(),
            },
            row.took_ms,
            row.late_ms,
            row.delay_s,
            row.kind,
            row.target,
        )?;
    }
    out.flush()
}

fn summarize(out: &mut impl Write, all: &Summary) -> io::Result<()> {
    writeln!(
        out,
        "boot {}, {} checks: {} up, {} down, {} unknown; {} conditions; {} changes reported",
        all.boot, all.checks, all.up, all.down, all.unknown, all.conditions, all.changes,
    )?;
    writeln!(
        out,
        "{} probes/s, {} in flight, {} % used; late by {:.0} ms at most, p50 {:.1}, p99 \
         {:.1} ms; intervals {} %{}",
        all.started,
        all.in_flight,
        all.used_permille / 10,
        all.late_max_ms,
        all.late_p50_ms,
        all.late_p99_ms,
        all.stretch_percent,
        match all.stretch_percent {
            100 => "",
            _ => ": OVERLOADED",
        },
    )?;
    if all.panics > 0 {
        writeln!(
            out,
            "PANIC in {} groups: {} are down and not reported so",
            all.panics, all.withheld
        )?;
    }
    if all.patient > 0 {
        writeln!(
            out,
            "{} checks of members that are moving: failures alone do not bring them down yet",
            all.patient
        )?;
    }
    writeln!(
        out,
        "{:16}  {:8} {:8}  {:11}  {:6}  {:>9}  {:>8}  {:>7}  {:11} TARGET",
        "KEY",
        "STATE",
        "RESULTS",
        "REASON",
        "DETAIL",
        "TOOK ms",
        "LATE ms",
        "DELAY s",
        "TYPE",
    )
}

fn print(snapshot: &QueueFile, checks: &HashMap<Key, &Check>) -> io::Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    writeln!(
        out,
        "boot {:016x}, {} changes reported, {} checks, intervals {} %",
        snapshot.boot,
        snapshot.last_sequence,
        snapshot.records.len(),
        snapshot.stretch_percent,
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
            |check| format!("{} {}", check.probe.name(), check.aim()),
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

/// Age of a timestamp in nanoseconds since 1970.
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
