// SPDX-License-Identifier: Apache-2.0
//! `run`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tracing::info;
use tracing_appender::non_blocking::WorkerGuard;

use super::threads::{ProbeArguments, Threads};
use super::{Failed, SourceArguments};
use crate::config;
use crate::engine::{Command, Engine};
use crate::metrics::{self, Metrics};
use crate::process::{memory, privileges};
use crate::queue::spool::Spool;
use crate::shard::live_table;
use crate::uplinks::file::FILE_NAME;
use crate::watch;

/// Settings of the checker.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The directory of checks files, or one file
    #[arg(long, env = "OCTAVIA_XDP_HC_CHECKS")]
    checks: PathBuf,
    /// Directory of the result queue
    #[arg(long, env = "OCTAVIA_XDP_HC_QUEUE")]
    queue: PathBuf,
    /// Address for GET /metrics, such as 127.0.0.1:9108; without it nothing listens
    #[arg(long, env = "OCTAVIA_XDP_HC_METRICS")]
    metrics: Option<SocketAddr>,
    /// UNIX socket that serves the live table to `status`; must be outside the queue
    #[arg(long, env = "OCTAVIA_XDP_HC_SOCKET")]
    socket: Option<PathBuf>,
    /// Format of log lines
    #[arg(long, env = "OCTAVIA_XDP_HC_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Lowest level to log
    #[arg(long, env = "OCTAVIA_XDP_HC_LOG_LEVEL", default_value = "info")]
    log_level: tracing::Level,
    /// Milliseconds between two probes of a check that is not steadily up, at most its
    /// delay; without it the delay is always used, as in Octavia
    #[arg(
        long = "fast-interval",
        env = "OCTAVIA_XDP_HC_FAST_INTERVAL",
        value_name = "FAST_INTERVAL",
        value_parser = clap::value_parser!(u64).range(100..)
    )]
    fast_interval_ms: Option<u64>,
    /// Keep the capability for marks even if no check has one yet
    #[arg(
        long,
        env = "OCTAVIA_XDP_HC_MARKS",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    marks: bool,
    #[command(flatten)]
    probes: ProbeArguments,
    #[command(flatten)]
    source: SourceArguments,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// Log to standard error without blocking: a slow reader costs log lines, which are
/// counted, and delays no probe.
fn log(arguments: &Arguments) -> WorkerGuard {
    // A thread inherits the capabilities of its creator, and this thread still has them.
    let (writer, guard) =
        privileges::without(|| tracing_appender::non_blocking(std::io::stderr()));
    let lines = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_ansi(false)
        .with_target(false)
        .with_max_level(arguments.log_level);
    match arguments.log_format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    guard
}

/// Run until SIGTERM or SIGINT.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failed> {
    memory::fix_threshold();
    let _guard = log(arguments);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .build()
        .map_err(|e| Failed::because("cannot start", e))?;
    let events_ready = Arc::new(Notify::new());
    let mut threads = {
        let _inside = runtime.enter();
        Threads::new(
            &arguments.probes,
            &arguments.source,
            arguments.fast_interval_ms,
            false,
            &events_ready,
        )?
    };
    // Threads inherit the remaining capabilities.
    privileges::reduce(arguments.marks || config::has_marks(&arguments.checks));
    threads.start()?;
    let result = runtime.block_on(serve(arguments, &threads, events_ready));
    threads.stop();
    result
}

async fn serve(
    arguments: &Arguments,
    threads: &Threads,
    events_ready: Arc<Notify>,
) -> Result<ExitCode, Failed> {
    let failed = |what: &'static str| move |e: std::io::Error| Failed::because(what, e);
    let mut terminate = signal(SignalKind::terminate()).map_err(failed("signals"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed("signals"))?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed("signals"))?;

    let metrics = Metrics::new();
    if let Some(address) = arguments.metrics {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|e| Failed::because(address, e))?;
        tokio::spawn(metrics::serve(listener, metrics.clone()));
    }
    let spool = Spool::open(&arguments.queue, metrics.clone())
        .map_err(|e| Failed(e.to_string()))?;
    info!(boot = %format_args!("{:016x}", spool.boot()), "started");

    let (commands, inbox) = mpsc::channel(4);
    let (again, asked) = mpsc::channel(1);
    tokio::spawn(watch::checks::run(
        arguments.checks.clone(),
        commands.clone(),
        asked,
    ));
    let uplink_commands = commands.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = hangup.recv() => {
                    // If the channel is full, a reload is pending anyway.
                    let _ = again.try_send(());
                }
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
            }
        }
        let _ = commands.send(Command::Stop).await;
    });

    let engine = Engine::new(threads.shards(), events_ready, spool, metrics);
    tokio::spawn(watch::uplinks::run(
        arguments.checks.with_file_name(FILE_NAME),
        uplink_commands,
        engine.asks(),
    ));
    if let Some(path) = &arguments.socket {
        let listener =
            live_table::listen(path).map_err(|e| Failed::because(path.display(), e))?;
        let shards = threads.shards().into_iter().map(|(shard, _)| shard);
        tokio::spawn(live_table::serve(
            listener,
            shards.collect(),
            engine.summary(),
        ));
    }
    if engine.run(inbox).await {
        info!("stopped");
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failed(
            "stopped, but could not write the last snapshot".to_owned(),
        ))
    }
}
