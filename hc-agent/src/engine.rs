// SPDX-License-Identifier: Apache-2.0
//! The loop: start probes when they are due, judge their outcomes, report changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

use crate::config::{Check, ConfigError};
use crate::key::Key;
use crate::lateness::{Lateness, explains};
use crate::metrics::Metrics;
use crate::probe::{self, Failure, Outcome, Source};
use crate::queue::spool::Spool;
use crate::schedule::{self, Schedule};
use crate::state::{Change, Machine, State};

/// Probes that are started before sockets get their turn.
const STARTS_AT_ONCE: usize = 128;
/// Outcomes that are taken before anything else gets its turn.
const OUTCOMES_AT_ONCE: usize = 256;
/// A probe that is later than this is put off: with it are probably all others.
const FAR_TOO_LATE: Duration = Duration::from_secs(1);
/// Time until a probe that counts for nothing is repeated.
const VOID_RETRY: Duration = Duration::from_millis(200);
/// Time between two lines that say the same trouble.
const QUIET: Duration = Duration::from_secs(10);

/// What the loop is told.
pub enum Command {
    /// A checks file was read.
    Checks(Result<Vec<Check>, ConfigError>),
    /// Write everything and end.
    Stop,
}

struct Slot {
    check: Arc<Check>,
    machine: Machine,
    running: bool,
    /// The next probe became due while the last one was running.
    overdue: bool,
    /// It was put off already and must not be again.
    put_off: bool,
}

struct Report {
    check: Arc<Check>,
    outcome: Outcome,
    /// Own lateness while the probe ran.
    late: Duration,
}

/// Settings of the loop.
pub struct Settings {
    /// Where probes come from.
    pub source: Source,
    /// Probes at a time.
    pub max_in_flight: usize,
}

/// The loop and all that it knows.
pub struct Engine {
    settings: Settings,
    source: Arc<Source>,
    origin: Instant,
    slots: HashMap<Key, Slot>,
    schedule: Schedule,
    probes: JoinSet<Report>,
    spool: Spool,
    lateness: Lateness,
    metrics: Metrics,
    counts: [usize; 3],
    quiet_until: Option<Instant>,
}

impl Engine {
    /// An engine without checks.
    pub fn new(
        settings: Settings,
        spool: Spool,
        lateness: Lateness,
        metrics: Metrics,
    ) -> Self {
        Self {
            source: Arc::new(settings.source.clone()),
            settings,
            origin: Instant::now(),
            slots: HashMap::new(),
            schedule: Schedule::default(),
            probes: JoinSet::new(),
            spool,
            lateness,
            metrics,
            counts: [0; 3],
            quiet_until: None,
        }
    }

    /// Run until told to stop. Returns whether the last snapshot is written.
    pub async fn run(mut self, mut commands: mpsc::Receiver<Command>) -> bool {
        loop {
            let now = Instant::now();
            self.start_due(now);
            self.spool.flush(now);
            self.metrics.in_flight(self.probes.len());
            self.metrics.late(self.lateness.total(now));

            let room = self.probes.len() < self.settings.max_in_flight;
            let wake = [
                if room { self.schedule.earliest() } else { None },
                self.spool.deadline(),
            ];
            let wake = wake.into_iter().flatten().min();
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Checks(result)) => self.reload(result),
                    Some(Command::Stop) | None => break,
                },
                Some(done) = self.probes.join_next() => {
                    self.finish(done);
                    for _ in 1..OUTCOMES_AT_ONCE {
                        let Some(done) = self.probes.try_join_next() else { break };
                        self.finish(done);
                    }
                }
                () = until(wake) => {}
            }
        }
        self.spool.close()
    }

    /// Start probes that are due, as many as may run.
    fn start_due(&mut self, now: Instant) {
        for _ in 0..STARTS_AT_ONCE {
            if self.probes.len() >= self.settings.max_in_flight {
                break;
            }
            let Some((key, due)) = self.schedule.pop_due(now) else {
                break;
            };
            self.start(key, due, now);
        }
    }

    fn start(&mut self, key: Key, due: Instant, now: Instant) {
        let Some(slot) = self.slots.get_mut(&key) else {
            return;
        };
        if slot.running {
            slot.overdue = true;
            return;
        }
        let late = now - due;
        self.metrics.started(late);
        if late > FAR_TOO_LATE && !slot.put_off {
            slot.put_off = true;
            self.metrics.skipped();
            let at = schedule::first(key, slot.check.delay, now);
            self.schedule.arm(key, at);
            return;
        }
        slot.put_off = false;
        slot.running = true;
        let next = schedule::next(key, slot.check.delay, self.origin, now);
        self.schedule.arm(key, next);

        let check = Arc::clone(&slot.check);
        let source = Arc::clone(&self.source);
        let lateness = self.lateness.clone();
        self.probes.spawn(async move {
            let before = lateness.total(Instant::now());
            let outcome = probe::run(&check, &source).await;
            let late = lateness.total(Instant::now()).saturating_sub(before);
            Report {
                check,
                outcome,
                late,
            }
        });
    }

    fn finish(&mut self, done: Result<Report, tokio::task::JoinError>) {
        let report = match done {
            Ok(report) => report,
            Err(error) => {
                // A check whose probe died is never started again by itself; better
                // to end and be restarted with all states kept.
                error!(%error, "a probe died");
                std::panic::resume_unwind(error.into_panic());
            }
        };
        let now = Instant::now();
        let key = report.check.key;
        let Some(slot) = self.slots.get_mut(&key) else {
            return;
        };
        if !Arc::ptr_eq(&slot.check, &report.check) {
            return;
        }
        slot.running = false;
        let overdue = std::mem::take(&mut slot.overdue);
        self.metrics.probed(slot.check.kind.name(), &report.outcome);
        if let Some(why) = void(&report) {
            let delay = slot.check.delay;
            self.metrics.voided(why);
            self.say_void(&report, now);
            self.schedule.arm(key, now + VOID_RETRY.min(delay));
            return;
        }
        if overdue {
            self.schedule.arm(key, now);
        }
        self.observe(key, &report.outcome, now);
    }

    fn observe(&mut self, key: Key, outcome: &Outcome, now: Instant) {
        let Some(slot) = self.slots.get_mut(&key) else {
            return;
        };
        let before = slot.machine.state();
        let (rise, fall) = (slot.check.rise, slot.check.fall);
        let change = slot.machine.observe(outcome.result.is_ok(), rise, fall);
        if change == Change::Nothing {
            return;
        }
        let state = slot.machine.state();
        let reason = outcome.reason();
        self.spool.report(key, state, reason, outcome.status, now);
        if change == Change::Changed {
            self.counts[before as usize] -= 1;
            self.counts[state as usize] += 1;
            self.metrics.changed(state);
            let text = outcome.result.as_ref().err().map(ToString::to_string);
            info!(
                check = %key,
                kind = slot.check.kind.name(),
                target = %slot.check.target,
                from = before.name(),
                to = state.name(),
                reason = reason.name(),
                status = outcome.status,
                took_ms = u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX),
                "{}",
                text.as_deref().unwrap_or("probe succeeded"),
            );
            self.show_counts();
        }
    }

    fn say_void(&mut self, report: &Report, now: Instant) {
        if self.quiet_until.is_some_and(|until| now < until) {
            return;
        }
        self.quiet_until = Some(now + QUIET);
        let error = report.outcome.result.as_ref().err();
        warn!(
            check = %report.check.key,
            late_ms = u64::try_from(report.late.as_millis()).unwrap_or(u64::MAX),
            "this node is too slow or short of something; failures that it can explain \
             count for nothing: {}",
            error.map(ToString::to_string).unwrap_or_default(),
        );
    }

    /// Take a new set of checks, or none of it. Only what differs is touched.
    fn reload(&mut self, result: Result<Vec<Check>, ConfigError>) {
        let checks = match result {
            Ok(checks) => checks,
            Err(error) if error.is_missing() => {
                self.metrics.reloaded("missing");
                warn!(kept = self.slots.len(), "there is no checks file");
                return;
            }
            Err(error) => {
                self.metrics.reloaded("refused");
                error!(%error, kept = self.slots.len(), "checks file refused");
                return;
            }
        };
        let now = Instant::now();
        let mut old = std::mem::take(&mut self.slots);
        let (mut added, mut restored) = (0, 0);
        for check in checks {
            let key = check.key;
            if let Some(slot) = old.remove(&key).filter(|slot| *slot.check == check) {
                self.slots.insert(key, slot);
                continue;
            }
            added += 1;
            let machine = match self.spool.state(key) {
                Some(state) if state != State::Unknown => {
                    restored += 1;
                    Machine::restored(state)
                }
                _ => Machine::new(),
            };
            self.spool.add(key, now);
            self.schedule
                .arm(key, schedule::first(key, check.delay, now));
            let slot = Slot {
                check: Arc::new(check),
                machine,
                running: false,
                overdue: false,
                put_off: false,
            };
            self.slots.insert(key, slot);
        }
        for key in old.keys().filter(|key| !self.slots.contains_key(key)) {
            self.schedule.disarm(*key);
        }
        let removed = old.len();
        self.spool.retain(now, |key| self.slots.contains_key(&key));
        self.metrics.reloaded("taken");
        if added > 0 || removed > 0 {
            let checks = self.slots.len();
            info!(checks, added, restored, removed, "checks file taken");
        }
        self.counts = [0; 3];
        for slot in self.slots.values() {
            self.counts[slot.machine.state() as usize] += 1;
        }
        self.show_counts();
    }

    fn show_counts(&self) {
        for state in [State::Unknown, State::Up, State::Down] {
            self.metrics.checks(state, self.counts[state as usize]);
        }
    }
}

/// Why an outcome tells nothing about its target, if so.
fn void(report: &Report) -> Option<&'static str> {
    let late = report.late.max(report.outcome.overrun);
    match report.outcome.result {
        Err(Failure::Local(_)) => Some("local_error"),
        // A server may also close because we were too slow to ask.
        Err(Failure::Timeout(_) | Failure::Closed(_))
            if explains(late, report.check.timeout) =>
        {
            Some("late")
        }
        _ => None,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        // More is due already: let the probes that run have their turn first.
        Some(at) if at <= Instant::now() => tokio::task::yield_now().await,
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
