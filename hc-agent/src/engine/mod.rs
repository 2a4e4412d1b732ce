// SPDX-License-Identifier: Apache-2.0
//! The main thread: passes checks to the probe threads and their results to the queue.
//! Nothing here delays a probe.

mod change_log;
mod uplinks;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

use self::change_log::ChangeLog;
use crate::aggregate::{Aggregator, Output};
use crate::config::{ChecksFile, ConfigError, Reading};
use crate::key::Key;
use crate::metrics::Metrics;
use crate::queue::spool::Spool;
use crate::schedule::grid::{self, NO_STRETCH};
use crate::schedule::overload::{self, Overload, Sample, Transition};
use crate::shard::live_table::{self, SharedSummary, Summary};
use crate::shard::probe_stats::DelayHistogram;
use crate::shard::{Discarded, Shard, reload};
use crate::state::State;
use crate::uplinks::file::Uplinks;
use crate::verdict::Verdict;

/// Minimum time between two log lines about the same problem.
const QUIET: Duration = Duration::from_secs(10);

/// Commands to the engine.
pub enum Command {
    /// Use the checks that were read, or handle the error.
    Checks(Result<Reading, ConfigError>),
    /// Use the agent's report on uplinks.
    Uplinks(Uplinks),
    /// Write everything and stop.
    Stop,
}

/// The main thread's state.
pub struct Engine {
    shards: Vec<Arc<Shard>>,
    runtimes: Vec<Handle>,
    /// Busy time of each thread, as of the last window.
    busy: Vec<Duration>,
    events_ready: Arc<Notify>,
    /// Notified when the agent must be asked about uplinks.
    asks: Arc<Notify>,
    spool: Spool,
    aggregator: Aggregator,
    outputs: Vec<Output>,
    overload: Overload,
    metrics: Metrics,
    summary: SharedSummary,
    /// Number of the last reload.
    reload: u32,
    /// The last reading found no checks file.
    is_missing: bool,
    change_log: ChangeLog,
    /// Lateness of all starts.
    lateness: DelayHistogram,
    window_at: Instant,
    quiet_until: Option<Instant>,
}

/// Totals of all threads in a window.
#[derive(Default)]
struct Window {
    sample: Sample,
    /// Checks by state.
    counts: [usize; 3],
    /// Checks of members that are moving.
    patient: usize,
    in_flight: usize,
    /// Lateness of starts.
    lateness: DelayHistogram,
    /// Total own lateness of the latest thread.
    own_lateness: Duration,
}

impl Engine {
    /// An engine without checks. All shards notify `events_ready`; each has a runtime.
    pub fn new(
        shards: Vec<(Arc<Shard>, Handle)>,
        events_ready: Arc<Notify>,
        spool: Spool,
        metrics: Metrics,
    ) -> Self {
        let (shards, runtimes): (Vec<_>, Vec<_>) = shards.into_iter().unzip();
        Self {
            busy: vec![Duration::ZERO; shards.len()],
            shards,
            runtimes,
            events_ready,
            asks: Arc::default(),
            spool,
            aggregator: Aggregator::default(),
            outputs: Vec::new(),
            overload: Overload::new(),
            metrics,
            summary: SharedSummary::default(),
            reload: 0,
            is_missing: false,
            change_log: ChangeLog::default(),
            lateness: DelayHistogram::default(),
            window_at: Instant::now() + overload::WINDOW,
            quiet_until: None,
        }
    }

    /// The summary line of the live table.
    pub fn summary(&self) -> SharedSummary {
        Arc::clone(&self.summary)
    }

    /// Notified when an outcome waits for the agent's report on uplinks.
    pub fn asks(&self) -> Arc<Notify> {
        Arc::clone(&self.asks)
    }

    /// Run until a stop command. Returns whether the last snapshot was written.
    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>) -> bool {
        loop {
            self.take_events();
            let now = Instant::now();
            self.spool.flush(now);
            if now >= self.window_at {
                self.close_window(now);
            }
            live_table::lock(&self.summary).unwritten = self.spool.holds_changes();
            self.change_log.write_some();
            let wake = match self.spool.deadline() {
                _ if !self.change_log.is_empty() => now,
                Some(at) => at.min(self.window_at),
                None => self.window_at,
            };
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Checks(result)) => self.take_checks(result),
                    Some(Command::Uplinks(uplinks)) => uplinks::take(&self.shards, &self.summary, uplinks),
                    Some(Command::Stop) | None => break,
                },
                () = self.events_ready.notified() => {}
                () = sleep_until(wake) => {}
            }
        }
        self.take_events();
        while !self.change_log.is_empty() {
            self.change_log.write_some();
        }
        self.spool.close()
    }

    fn take_events(&mut self) {
        for number in 0..self.shards.len() {
            if self.shards[number].waits() {
                self.asks.notify_one();
            }
            for event in self.shards[number].take_events() {
                let verdict = Verdict {
                    state: event.to,
                    verified: true,
                    reason: event.outcome.reason(),
                    detail: event.outcome.status,
                };
                let key = event.check.key;
                self.aggregator.observe(key, verdict, &mut self.outputs);
                if event.from != event.to {
                    self.metrics.count_change(event.to);
                    self.change_log.push(event);
                }
            }
        }
        self.put_out();
    }

    fn put_out(&mut self) {
        let now = Instant::now();
        for output in self.outputs.drain(..) {
            match output {
                Output::Report(key, verdict) => self.spool.report(key, verdict, now),
                Output::Panic {
                    group,
                    on: true,
                    down,
                    keys,
                } => warn!(
                    group = &*group,
                    down, keys, "panic: too many are down at once, none is reported down"
                ),
                Output::Panic {
                    group, down, keys, ..
                } => info!(group = &*group, down, keys, "panic is over"),
            }
        }
    }

    /// Collect the numbers of the last second and check whether this node keeps up.
    fn close_window(&mut self, now: Instant) {
        self.window_at = now + overload::WINDOW;
        let window = self.take_reports(now);
        self.lateness.add(&window.lateness);
        self.metrics.set_in_flight(window.in_flight);
        self.metrics.set_late(window.own_lateness);
        self.metrics
            .set_recent(&window.lateness, window.sample.used_permille);
        for state in [State::Unknown, State::Up, State::Down] {
            self.metrics
                .set_checks(state, window.counts[state as usize]);
        }
        self.metrics
            .set_groups(self.aggregator.panics(), self.aggregator.withheld());
        self.adapt_intervals(window.sample, now);
        let mut summary = live_table::lock(&self.summary);
        *summary = Summary {
            uplinks: summary.uplinks,
            unwritten: summary.unwritten,
            ..self.summarize(&window)
        };
    }

    fn take_reports(&mut self, now: Instant) -> Window {
        let mut window = Window::default();
        let sample = &mut window.sample;
        let mut wanted = 0;
        for number in 0..self.shards.len() {
            let shard = &self.shards[number];
            let report = shard.take_report(now);
            window.own_lateness = window.own_lateness.max(shard.lateness(now));
            let stats = &report.stats;
            let standing_us = stats.least_late_us.unwrap_or(report.waiting_us);
            let standing_us = standing_us.max(report.waiting_us);
            let standing = Duration::from_micros(standing_us.into());
            sample.standing = sample.standing.max(standing);
            sample.started += stats.started;
            wanted += report.wanted;
            let busy = self.runtimes[number]
                .metrics()
                .worker_total_busy_duration(0);
            let before = std::mem::replace(&mut self.busy[number], busy);
            // Milliseconds per second are thousandths of the time.
            let busy_permille = grid::milliseconds(busy.saturating_sub(before));
            let full_permille = stats.max_in_flight * 1000 / report.room.max(1);
            sample.used_permille = sample
                .used_permille
                .max(busy_permille)
                .max(full_permille as u64);
            window.in_flight += report.in_flight;
            window.patient += report.patient;
            for (sum, count) in window.counts.iter_mut().zip(report.counts) {
                *sum += count;
            }
            window.lateness.add(&stats.lateness);
            self.metrics.add_stats(stats);
            if let Some(discarded) = report.discarded {
                self.log_discarded(&discarded, now);
            }
        }
        sample.wanted = wanted / 1_000_000;
        window
    }

    fn summarize(&self, window: &Window) -> Summary {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let recent = &window.lateness;
        Summary {
            boot: format!("{:016x}", self.spool.boot()),
            changes: self.spool.last_sequence(),
            checks: window.counts.iter().sum(),
            unknown: window.counts[State::Unknown as usize],
            up: window.counts[State::Up as usize],
            down: window.counts[State::Down as usize],
            conditions: self.aggregator.conditions(),
            panics: self.aggregator.panics(),
            withheld: self.aggregator.withheld(),
            patient: window.patient,
            in_flight: window.in_flight,
            started: window.sample.started,
            used_permille: window.sample.used_permille,
            stretch_percent: self.overload.stretch_permille() / 10,
            late_p50_ms: milliseconds(recent.quantile(500)),
            late_p99_ms: milliseconds(recent.quantile(990)),
            late_max_ms: milliseconds(recent.max()),
            total_late_p99_ms: milliseconds(self.lateness.quantile(990)),
            own_late_s: window.own_lateness.as_secs_f64(),
            ..Summary::default()
        }
    }

    /// Lengthen intervals if this node cannot keep up, and shorten them again later.
    fn adapt_intervals(&mut self, sample: Sample, now: Instant) {
        let transition = self.overload.observe(sample);
        if transition == Transition::None {
            return;
        }
        let stretch_permille = self.overload.stretch_permille();
        for shard in &self.shards {
            shard.stretch(stretch_permille);
        }
        let percent = stretch_permille / (NO_STRETCH / 100);
        self.metrics.set_stretch(stretch_permille);
        self.spool
            .stretch(u16::try_from(percent).unwrap_or(u16::MAX), now);
        let standing_ms = grid::milliseconds(sample.standing);
        match transition {
            Transition::Begin => warn!(
                standing_ms,
                used_permille = sample.used_permille,
                percent,
                "this node cannot keep up: all intervals are lengthened"
            ),
            Transition::End => {
                info!("this node keeps up again: intervals are back to normal");
            }
            _ => tracing::debug!(percent, standing_ms, "intervals changed"),
        }
    }

    fn log_discarded(&mut self, discarded: &Discarded, now: Instant) {
        if self.quiet_until.is_some_and(|until| now < until) {
            return;
        }
        self.quiet_until = Some(now + QUIET);
        warn!(
            check = %discarded.key,
            late_ms = grid::milliseconds(discarded.lateness),
            "this node is too slow or short of something; failures that it can explain \
             are discarded: {}",
            discarded.text,
        );
    }

    /// Apply a reading: a new set of checks, or an error.
    fn take_checks(&mut self, result: Result<Reading, ConfigError>) {
        let kept = self.shards.iter().map(|s| s.core().checks()).sum::<usize>();
        let is_missing = result.as_ref().is_err_and(ConfigError::is_missing);
        let was_missing = std::mem::replace(&mut self.is_missing, is_missing);
        if was_missing && !is_missing {
            info!("the checks file is there again");
        }
        match result {
            Ok(reading) => {
                for (file, error) in &reading.refused {
                    self.metrics.count_reload("refused");
                    error!(%file, %error, "checks file refused: its last checks stay");
                }
                self.reload(reading.file);
            }
            Err(_) if is_missing => {
                self.metrics.count_reload("missing");
                if !was_missing {
                    warn!(kept, "there is no checks file: what is known stays");
                }
            }
            Err(error) => {
                self.metrics.count_reload("refused");
                error!(%error, kept, "checks file refused");
            }
        }
    }

    /// Switch to another set of checks; unchanged checks are not touched.
    fn reload(&mut self, file: ChecksFile) {
        // Take the outcomes of removed checks before these are forgotten.
        self.take_events();
        let now = Instant::now();
        self.reload = self.reload.wrapping_add(1);
        let all = file.checks.len();
        let mut keys: Vec<Key> = file.checks.iter().map(|check| check.key).collect();
        keys.extend(file.conditions.iter().map(|condition| condition.key));
        let spool = &self.spool;
        let known = |key| spool.state(key).filter(|state| *state != State::Unknown);
        let touched = reload::reload(
            &self.shards,
            file.checks,
            &file.patience,
            self.reload,
            known,
        );
        keys.sort_unstable();
        self.spool.set_keys(&keys, now);
        let spool = &self.spool;
        self.aggregator.replace(
            file.conditions,
            file.groups,
            |key| spool.verdict(key),
            &mut self.outputs,
        );
        self.put_out();
        self.metrics.count_reload("taken");
        if touched.added > 0 || touched.removed > 0 {
            info!(
                checks = all,
                added = touched.added,
                restored = touched.restored,
                removed = touched.removed,
                "checks file taken"
            );
        }
    }
}
