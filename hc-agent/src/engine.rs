// SPDX-License-Identifier: Apache-2.0
//! The main thread: hands checks to the threads that probe them, and their results to
//! the queue. Nothing here delays a probe.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

use crate::compose::{Composer, Output, Verdict};
use crate::config::{ConfigError, Wanted};
use crate::key::Key;
use crate::load::{self, Load, Sample, Turn};
use crate::metrics::Metrics;
use crate::queue::spool::Spool;
use crate::schedule::{self, NO_STRETCH};
use crate::shard::{Event, Shard, Void};
use crate::state::State;
use crate::table::{self, Summary};
use crate::tally::Delays;

/// Slots that a reload touches before the thread they belong to gets its turn.
const SLOTS_AT_ONCE: usize = 256;
/// Lines that are logged before anything else gets its turn.
const LINES_AT_ONCE: usize = 64;
/// Lines that wait to be logged; more would take memory that probes need.
const MAX_LINES: usize = 4096;
/// Time between two lines that say the same trouble.
const QUIET: Duration = Duration::from_secs(10);

/// What the engine is told.
pub enum Command {
    /// A checks file was read.
    Checks(Result<Wanted, ConfigError>),
    /// Write everything and end.
    Stop,
}

/// The main thread and all that it knows.
pub struct Engine {
    shards: Vec<Arc<Shard>>,
    news: Arc<Notify>,
    spool: Spool,
    composer: Composer,
    outputs: Vec<Output>,
    load: Load,
    metrics: Metrics,
    summary: table::Shared,
    reload: u32,
    /// Changes that are not logged yet: the queue comes first.
    lines: VecDeque<Event>,
    /// Changes that are not logged at all.
    unsaid: u64,
    late: Delays,
    window_at: Instant,
    quiet_until: Option<Instant>,
    busy: Vec<Duration>,
    runtimes: Vec<tokio::runtime::Handle>,
}

impl Engine {
    /// An engine without checks. All shards ring `news`; each has a runtime.
    pub fn new(
        shards: Vec<(Arc<Shard>, tokio::runtime::Handle)>,
        news: Arc<Notify>,
        spool: Spool,
        metrics: Metrics,
    ) -> Self {
        let (shards, runtimes): (Vec<_>, Vec<_>) = shards.into_iter().unzip();
        Self {
            busy: vec![Duration::ZERO; shards.len()],
            shards,
            news,
            spool,
            composer: Composer::default(),
            outputs: Vec::new(),
            load: Load::new(),
            metrics,
            summary: table::Shared::default(),
            reload: 0,
            lines: VecDeque::new(),
            unsaid: 0,
            late: Delays::default(),
            window_at: Instant::now() + load::WINDOW,
            quiet_until: None,
            runtimes,
        }
    }

    /// What the table of checks says above it.
    pub fn summary(&self) -> table::Shared {
        Arc::clone(&self.summary)
    }

    /// Run until told to stop. Returns whether the last snapshot is written.
    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>) -> bool {
        loop {
            self.take_events();
            let now = Instant::now();
            self.spool.flush(now);
            if now >= self.window_at {
                self.window(now);
            }
            self.say_some();
            let wake = match self.spool.deadline() {
                _ if !self.lines.is_empty() => now,
                Some(at) => at.min(self.window_at),
                None => self.window_at,
            };
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Checks(result)) => self.reload(result),
                    Some(Command::Stop) | None => break,
                },
                () = self.news.notified() => {}
                () = sleep_until(wake) => {}
            }
        }
        self.take_events();
        while !self.lines.is_empty() {
            self.say_some();
        }
        self.spool.close()
    }

    fn take_events(&mut self) {
        for number in 0..self.shards.len() {
            for event in self.shards[number].take_events() {
                let verdict = Verdict {
                    state: event.to,
                    verified: true,
                    reason: event.outcome.reason(),
                    detail: event.outcome.status,
                };
                let key = event.check.key;
                self.composer.observe(key, verdict, &mut self.outputs);
                if event.from != event.to {
                    self.metrics.changed(event.to);
                    self.say_later(event);
                }
            }
        }
        self.put_out();
    }

    /// Log a change later, if there is room for it.
    fn say_later(&mut self, event: Event) {
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        if self.lines.len() < MAX_LINES {
            self.lines.push_back(event);
        } else {
            self.unsaid += 1;
        }
    }

    /// Log some changes.
    fn say_some(&mut self) {
        for _ in 0..LINES_AT_ONCE {
            let Some(event) = self.lines.pop_front() else {
                break;
            };
            say(&event);
        }
        if self.lines.is_empty() && self.unsaid > 0 {
            warn!(changes = self.unsaid, "too many changes at once to log all");
            self.unsaid = 0;
        }
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

    /// Take numbers of the last second, and see whether this node keeps up.
    fn window(&mut self, now: Instant) {
        self.window_at = now + load::WINDOW;
        let mut sample = Sample::default();
        let mut counts = [0; 3];
        let (mut in_flight, mut late) = (0, Duration::ZERO);
        let mut recent = Delays::default();
        let mut wanted = 0;
        for number in 0..self.shards.len() {
            let shard = &self.shards[number];
            let news = shard.take_news(now);
            late = late.max(shard.lateness(now));
            let standing = news.tally.least_late.unwrap_or(news.waiting);
            let standing = Duration::from_micros(standing.max(news.waiting).into());
            sample.standing = sample.standing.max(standing);
            sample.started += news.tally.started;
            wanted += news.wanted;
            let busy = self.runtimes[number]
                .metrics()
                .worker_total_busy_duration(0);
            let before = std::mem::replace(&mut self.busy[number], busy);
            let busy = schedule::milliseconds(busy.saturating_sub(before));
            let full = (news.tally.most_in_flight * 1000 / news.room.max(1)) as u64;
            sample.used = sample.used.max(busy).max(full);
            in_flight += news.in_flight;
            for (sum, count) in counts.iter_mut().zip(news.counts) {
                *sum += count;
            }
            recent.add(&news.tally.late);
            self.metrics.take(&news.tally);
            if let Some(void) = news.void {
                self.say_void(&void, now);
            }
        }
        sample.wanted = wanted / 1_000_000;
        self.late.add(&recent);
        self.metrics.in_flight(in_flight);
        self.metrics.late(late);
        self.metrics.recently(&recent, sample.used);
        for state in [State::Unknown, State::Up, State::Down] {
            self.metrics.checks(state, counts[state as usize]);
        }
        self.metrics
            .groups(self.composer.panics(), self.composer.withheld());
        self.stretch(sample, now);
        *table::lock(&self.summary) = Summary {
            boot: format!("{:016x}", self.spool.boot()),
            changes: self.spool.last_sequence(),
            checks: counts.iter().sum(),
            unknown: counts[0],
            up: counts[1],
            down: counts[2],
            conditions: self.composer.conditions(),
            panics: self.composer.panics(),
            withheld: self.composer.withheld(),
            in_flight,
            started: sample.started,
            used_permille: sample.used,
            stretch_percent: self.load.stretch() / 10,
            late_p50_ms: recent.quantile(500).as_secs_f64() * 1e3,
            late_p99_ms: recent.quantile(990).as_secs_f64() * 1e3,
            late_max_ms: recent.most().as_secs_f64() * 1e3,
            total_late_p99_ms: self.late.quantile(990).as_secs_f64() * 1e3,
            own_late_s: late.as_secs_f64(),
        };
    }

    fn stretch(&mut self, sample: Sample, now: Instant) {
        let turn = self.load.observe(sample);
        if turn == Turn::Same {
            return;
        }
        let stretch = self.load.stretch();
        for shard in &self.shards {
            shard.stretch(stretch);
        }
        let percent = stretch / (NO_STRETCH / 100);
        self.metrics.stretched(stretch);
        self.spool
            .stretch(u16::try_from(percent).unwrap_or(u16::MAX), now);
        let standing = schedule::milliseconds(sample.standing);
        match turn {
            Turn::Begin => warn!(
                standing_ms = standing,
                used_permille = sample.used,
                percent,
                "this node cannot keep up: all intervals are longer from now on"
            ),
            Turn::End => info!("this node keeps up again: intervals are as asked for"),
            _ => tracing::debug!(percent, standing_ms = standing, "intervals changed"),
        }
    }

    fn say_void(&mut self, void: &Void, now: Instant) {
        if self.quiet_until.is_some_and(|until| now < until) {
            return;
        }
        self.quiet_until = Some(now + QUIET);
        warn!(
            check = %void.key,
            late_ms = schedule::milliseconds(void.late),
            "this node is too slow or short of something; failures that it can explain \
             count for nothing: {}",
            void.text,
        );
    }

    /// Take a new set of checks, or none of it. Only what differs is touched.
    fn reload(&mut self, result: Result<Wanted, ConfigError>) {
        let kept = self.shards.iter().map(|s| s.core().checks()).sum::<usize>();
        let wanted = match result {
            Ok(wanted) => wanted,
            Err(error) if error.is_missing() => {
                self.metrics.reloaded("missing");
                warn!(kept, "there is no checks file");
                return;
            }
            Err(error) => {
                self.metrics.reloaded("refused");
                error!(%error, kept, "checks file refused");
                return;
            }
        };
        // Results of checks that go must not come after they are forgotten.
        self.take_events();
        let now = Instant::now();
        self.reload = self.reload.wrapping_add(1);
        let known = |key| {
            self.spool
                .state(key)
                .filter(|state| *state != State::Unknown)
        };
        let all = wanted.checks.len();
        let mut keys: Vec<Key> = wanted.checks.iter().map(|check| check.key).collect();
        keys.extend(wanted.conditions.iter().map(|condition| condition.key));
        let (mut added, mut restored, mut removed) = (0, 0, 0);
        let threads = self.shards.len();
        let mut shares: Vec<Vec<_>> = vec![Vec::new(); threads];
        for check in wanted.checks {
            shares[schedule::thread(check.key, threads)].push(check);
        }
        for (shard, checks) in self.shards.iter().zip(shares) {
            let mut checks = checks.into_iter().peekable();
            shard.core().begin_reload(all);
            while checks.peek().is_some() {
                let tick = shard.tick(Instant::now());
                let mut core = shard.core();
                for check in checks.by_ref().take(SLOTS_AT_ONCE) {
                    let state = known(check.key);
                    if core.put(check, self.reload, || state, tick) {
                        added += 1;
                        restored += usize::from(state.is_some());
                    }
                }
                drop(core);
                shard.ring();
            }
            let slots = shard.core().slots.len();
            for first in (0..slots).step_by(16 * SLOTS_AT_ONCE) {
                let range = first..first + 16 * SLOTS_AT_ONCE;
                removed += shard.core().sweep(range, self.reload);
            }
            shard.core().end_reload();
        }
        keys.sort_unstable();
        self.spool.set_keys(&keys, now);
        let spool = &self.spool;
        self.composer.replace(
            wanted.conditions,
            wanted.groups,
            |key| spool.verdict(key),
            &mut self.outputs,
        );
        self.put_out();
        self.metrics.reloaded("taken");
        if added > 0 || removed > 0 {
            info!(checks = all, added, restored, removed, "checks file taken");
        }
    }
}

fn say(event: &Event) {
    let outcome = &event.outcome;
    let text = outcome.result.as_ref().err().map(ToString::to_string);
    info!(
        check = %event.check.key,
        kind = event.check.kind.name(),
        target = event.check.aim(),
        from = event.from.name(),
        to = event.to.name(),
        reason = outcome.reason().name(),
        status = outcome.status,
        took_ms = schedule::milliseconds(outcome.took),
        "{}",
        text.as_deref().unwrap_or("probe succeeded"),
    );
}
