// SPDX-License-Identifier: Apache-2.0
//! One thread's share of the checks: starts due probes and judges outcomes.
//!
//! The state of a shard is behind one lock, which its thread takes for each start and
//! each outcome. The engine takes it to reload, to collect changes and numbers, and to
//! show the table, but never for more than a few microseconds.

mod check_slot;
mod core;
mod deferred;
pub mod live_table;
mod outage;
mod patience;
pub mod probe_stats;
pub mod reload;
mod report;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep_until};

use self::check_slot::microseconds;
pub(crate) use self::core::Core;
pub use self::core::Settings;
pub use self::report::{Discard, Discarded, Event, ShardReport};
use crate::config::Check;
use crate::probe::{self, ProbeOutcome, Source};
use crate::schedule::grid::{NO_STRETCH, milliseconds};
use crate::schedule::lateness::Lateness;
use crate::state::State;
use crate::uplinks::file::{Uplink, Uplinks};
use crate::uplinks::judgement::{Outlook, Since};

/// Probes started before yielding to sockets.
const STARTS_AT_ONCE: usize = 64;
/// Check slots processed before the lock is released.
const SLOTS_AT_ONCE: usize = 1024;

/// One thread's share.
pub struct Shard {
    core: Mutex<Core>,
    origin: Instant,
    lateness: Lateness,
    source: Source,
    /// Permits for connections that stay open after their result.
    partings: Semaphore,
    /// Notified when the loop must look again.
    wakeup: Notify,
    /// Notified when there are events.
    events_ready: Arc<Notify>,
}

impl Shard {
    /// A shard without checks. `events_ready` is notified when
    /// [`Self::take_events`] has something.
    pub fn new(
        settings: Settings,
        source: Source,
        events_ready: Arc<Notify>,
    ) -> Arc<Self> {
        Arc::new(Self {
            partings: Semaphore::new(settings.max_partings),
            core: Mutex::new(Core::new(settings)),
            origin: Instant::now(),
            lateness: Lateness::new(),
            source,
            wakeup: Notify::new(),
            events_ready,
        })
    }

    /// Lock the state. Poisoning is ignored, as a panic here ends the program.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the start.
    pub(crate) fn tick_ms(&self, now: Instant) -> u64 {
        milliseconds(now.saturating_duration_since(self.origin))
    }

    /// Total own lateness of this thread.
    pub fn lateness(&self, now: Instant) -> Duration {
        self.lateness.total(now)
    }

    /// Wake the loop to start due probes.
    pub(crate) fn wake(&self) {
        self.wakeup.notify_one();
    }

    /// Set the factor on intervals, in thousandths, from the next probes on.
    pub fn stretch(&self, stretch_permille: u32) {
        self.core().stretch_permille = stretch_permille;
    }

    /// Apply the agent's report on uplinks. `clock_ns` is `now` by `CLOCK_MONOTONIC`.
    pub fn set_uplinks(&self, uplinks: Uplinks, clock_ns: u64, now: Instant) {
        let tick_ms = self.tick_ms(now);
        let outlook = [uplinks.v4, uplinks.v6]
            .map(|known| known.map(|known| outlook(known, clock_ns, tick_ms)));
        let again = self.core().set_outlook(outlook, tick_ms);
        if again != [false; 2] {
            let slots = self.core().slots.len();
            for first in (0..slots).step_by(SLOTS_AT_ONCE) {
                let range = first..first + SLOTS_AT_ONCE;
                self.core().probe_again(range, again, tick_ms);
            }
        }
        self.wake();
    }

    /// Whether outcomes wait for the agent's report on uplinks.
    pub fn waits(&self) -> bool {
        self.core().waits()
    }

    /// Take all changes since the last time.
    ///
    /// # Panics
    ///
    /// If a probe has panicked: its check would never be probed again. The restarted
    /// program keeps all states.
    pub fn take_events(&self) -> Vec<Event> {
        let mut core = self.core();
        assert!(!core.died, "a probe died");
        std::mem::take(&mut core.events)
    }

    /// Take the numbers since the last time.
    pub fn take_report(&self, now: Instant) -> ShardReport {
        let tick_ms = self.tick_ms(now);
        let mut core = self.core();
        core.wheel.advance(tick_ms);
        if core.waits() {
            core.judge_deferred(tick_ms);
            // Judging may have armed probes.
            self.wake();
        }
        let waiting_ms = core
            .wheel
            .first_due()
            .map_or(0, |due_ms| tick_ms - due_ms.min(tick_ms));
        let mut stats = std::mem::take(&mut core.stats);
        stats.max_in_flight = stats.max_in_flight.max(core.in_flight);
        // Recover slowly from a shortage of descriptors.
        core.room = (core.room + core.room / 16 + 1).min(core.settings.max_in_flight);
        if core.blocked {
            self.wake();
        }
        ShardReport {
            stats,
            discarded: core.discarded.take(),
            patient: core.patience.len(),
            waiting_us: microseconds(Duration::from_millis(waiting_ms)),
            in_flight: core.in_flight,
            room: core.room,
            counts: core.counts,
            waits: core.waits(),
            wanted: core.demand * u64::from(NO_STRETCH)
                / u64::from(core.stretch_permille),
        }
    }

    /// Start due probes and judge outcomes, forever (or once).
    pub async fn run(self: Arc<Self>) {
        let _guard = PanicGuard(&self);
        let ticker = tokio::spawn(self.lateness.clone().run());
        loop {
            let now = Instant::now();
            let wake = self.start_due(now);
            // True at once if there are no checks.
            if self.is_done() {
                ticker.abort();
                return;
            }
            tokio::select! {
                biased;
                () = self.wakeup.notified() => {}
                () = until(wake) => {}
            }
        }
    }

    /// Whether every check was probed, if each is to be probed once.
    fn is_done(&self) -> bool {
        let core = self.core();
        core.settings.once && core.in_flight == 0 && core.wheel.is_empty()
    }

    /// Start due probes, up to the limit. Returns when to be called again.
    fn start_due(self: &Arc<Self>, now: Instant) -> Option<Instant> {
        let tick_ms = self.tick_ms(now);
        let mut core = self.core();
        core.wheel.advance(tick_ms);
        for _ in 0..STARTS_AT_ONCE {
            core.blocked = core.in_flight >= core.room;
            if core.blocked {
                core.wake_ms = u64::MAX;
                return None;
            }
            let Some((number, due)) = core.wheel.pop() else {
                break;
            };
            if let Some(check) = core.start(number, due, tick_ms) {
                let shard = Arc::clone(self);
                let state = core.state(number);
                tokio::spawn(shard.probe(number, check, state));
            }
        }
        let next = core.wheel.next_tick();
        core.wake_ms = next.unwrap_or(u64::MAX);
        let next = next?;
        Some(self.origin + Duration::from_millis(next))
    }

    async fn probe(self: Arc<Self>, number: u32, check: Arc<Check>, state: State) {
        let before = self.lateness.total(Instant::now());
        let guard = PanicGuard(&self);
        let (outcome, parting) = probe::run_again(&check, &self.source, state).await;
        std::mem::forget(guard);
        self.finish(number, check, outcome, before);
        // Without a permit the connection is reset.
        if let Some(parting) = parting
            && let Ok(_place) = self.partings.try_acquire()
        {
            parting.read_on().await;
        }
    }

    /// Process the outcome of a probe. `before` is the total lateness of this thread
    /// when the probe started.
    fn finish(
        &self,
        number: u32,
        check: Arc<Check>,
        outcome: ProbeOutcome,
        before: Duration,
    ) {
        let now = Instant::now();
        let lateness = match outcome.result {
            Ok(()) => Duration::ZERO,
            Err(_) => self.lateness.total(now).saturating_sub(before),
        };
        let tick_ms = self.tick_ms(now);
        let mut core = self.core();
        let news = |core: &Core| (!core.events.is_empty(), core.waits());
        let before = news(&core);
        core.finish(number, check, outcome, lateness, tick_ms);
        let after = news(&core);
        let notify = (!before.0 && after.0) || (!before.1 && after.1);
        let done = core.settings.once && core.in_flight == 0;
        let wake = if core.blocked {
            core.in_flight < core.room
        } else {
            done || core
                .wheel
                .next_tick()
                .is_some_and(|next| next < core.wake_ms)
        };
        if wake {
            core.blocked = false;
            core.wake_ms = 0;
        }
        drop(core);
        if wake {
            self.wake();
        }
        if notify {
            self.events_ready.notify_one();
        }
    }
}

/// Makes a panic of a probe or of the thread end the program.
struct PanicGuard<'a>(&'a Shard);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.core().died = true;
            self.0.events_ready.notify_one();
        }
    }
}

/// Convert to ticks, rounding both times to the cautious side.
fn outlook(known: Uplink, clock_ns: u64, tick_ms: u64) -> Outlook {
    const NS: u64 = 1_000_000;
    let age_ns = |ns: u64| clock_ns.saturating_sub(ns);
    Outlook {
        as_of_ms: tick_ms.saturating_sub(age_ns(known.as_of_ns).div_ceil(NS)),
        since: known.since_ns.map(|ns| Since {
            ns,
            ms: tick_ms.saturating_sub(age_ns(ns) / NS),
        }),
    }
}

async fn until(at: Option<Instant>) {
    match at {
        // More probes are due already: let the running ones proceed first.
        Some(at) if at <= Instant::now() => tokio::task::yield_now().await,
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod parting_tests;
