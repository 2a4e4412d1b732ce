// SPDX-License-Identifier: Apache-2.0
//! `run`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{info, warn};
use tracing_appender::non_blocking::WorkerGuard;

use super::{Failed, SourceArguments};
use crate::engine::{Command, Engine, Settings};
use crate::lateness::Lateness;
use crate::metrics::{self, Metrics};
use crate::queue::spool::Spool;
use crate::watch;

/// Descriptors that are not for probes.
const OTHER_DESCRIPTORS: u64 = 64;

/// Settings of the checker.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The checks file
    #[arg(long, env = "OCTAVIA_XDP_HC_CHECKS")]
    checks: PathBuf,
    /// Directory of the result queue
    #[arg(long, env = "OCTAVIA_XDP_HC_QUEUE")]
    queue: PathBuf,
    /// Answer GET /metrics here, as 127.0.0.1:9105; without it nothing listens
    #[arg(long, env = "OCTAVIA_XDP_HC_METRICS")]
    metrics: Option<SocketAddr>,
    /// Probes at a time, at most; fewer if the limit of open files is lower
    #[arg(
        long,
        env = "OCTAVIA_XDP_HC_MAX_IN_FLIGHT",
        default_value_t = 16384,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    max_in_flight: u32,
    /// How log lines look
    #[arg(long, env = "OCTAVIA_XDP_HC_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Lowest level that is logged
    #[arg(long, env = "OCTAVIA_XDP_HC_LOG_LEVEL", default_value = "info")]
    log_level: tracing::Level,
    #[command(flatten)]
    source: SourceArguments,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// Log to standard error without ever waiting for it: lines are dropped, and counted,
/// rather than probes being late.
fn log(arguments: &Arguments) -> WorkerGuard {
    let (writer, guard) = tracing_appender::non_blocking(std::io::stderr());
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

/// Allow as many descriptors as we may, and say how many probes fit.
fn room_for_probes(wanted: u32) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let most = current.map_or(u64::MAX, |n| n.saturating_sub(OTHER_DESCRIPTORS).max(1));
    if most < u64::from(wanted) {
        warn!(
            wanted,
            most, "the limit of open files bounds the probes at a time"
        );
    }
    usize::try_from(most.min(wanted.into())).unwrap_or(usize::MAX)
}

/// Run until SIGTERM or SIGINT.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failed> {
    let _guard = log(arguments);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .build()
        .map_err(|e| Failed::because("cannot start", e))?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &Arguments) -> Result<ExitCode, Failed> {
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

    let lateness = Lateness::new();
    tokio::spawn(lateness.clone().run());
    let (commands, inbox) = mpsc::channel(4);
    let (again, asked) = mpsc::channel(1);
    tokio::spawn(watch::run(
        arguments.checks.clone(),
        commands.clone(),
        asked,
    ));
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = hangup.recv() => {
                    // A full channel means that a reload is coming anyway.
                    let _ = again.try_send(());
                }
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
            }
        }
        let _ = commands.send(Command::Stop).await;
    });

    let settings = Settings {
        source: arguments.source.source(),
        max_in_flight: room_for_probes(arguments.max_in_flight),
    };
    let written = Engine::new(settings, spool, lateness, metrics)
        .run(inbox)
        .await;
    if written {
        info!("stopped");
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failed(
            "stopped, but the last snapshot is not written".to_owned(),
        ))
    }
}
