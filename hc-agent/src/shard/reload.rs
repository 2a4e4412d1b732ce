// SPDX-License-Identifier: Apache-2.0
//! Gives the threads another set of checks; unchanged checks are not touched.

use std::sync::Arc;

use tokio::time::Instant;

use super::Shard;
use crate::config::{Check, Patience, patience_by_key};
use crate::key::Key;
use crate::schedule::grid;
use crate::state::State;

/// Check slots that a reload processes before it releases the lock.
const SLOTS_AT_ONCE: usize = 256;

/// Numbers of checks that a reload has changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Touched {
    /// New checks.
    pub added: usize,
    /// New checks with a state from an earlier run.
    pub restored: usize,
    /// Removed checks.
    pub removed: usize,
}

/// Distribute these checks over the shards and remove all others. `patience` is for
/// checks of moving members, `number` identifies the reload, and `known` returns the
/// state from an earlier run.
pub fn reload(
    shards: &[Arc<Shard>],
    checks: Vec<Arc<Check>>,
    patience: &[Patience],
    number: u32,
    known: impl Fn(Key) -> Option<State>,
) -> Touched {
    let mut touched = Touched::default();
    let all = checks.len();
    let patience = patience_by_key(patience);
    let mut parts: Vec<Vec<_>> = vec![Vec::new(); shards.len()];
    for check in checks {
        parts[grid::thread(check.key, shards.len())].push(check);
    }
    for (place, (shard, checks)) in shards.iter().zip(parts).enumerate() {
        let own = patience
            .iter()
            .filter(|(key, _)| grid::thread(**key, shards.len()) == place)
            .map(|(key, time)| (*key, *time));
        shard.core().patience.replace(own);
        shard.core().begin_reload(all);
        put_all(shard, checks, number, &known, &mut touched);
        let slots = shard.core().slots.len();
        for first in (0..slots).step_by(16 * SLOTS_AT_ONCE) {
            let range = first..first + 16 * SLOTS_AT_ONCE;
            touched.removed += shard.core().sweep(range, number);
        }
        shard.core().end_reload();
    }
    touched
}

fn put_all(
    shard: &Shard,
    checks: Vec<Arc<Check>>,
    number: u32,
    known: &impl Fn(Key) -> Option<State>,
    touched: &mut Touched,
) {
    let mut checks = checks.into_iter().peekable();
    while checks.peek().is_some() {
        let tick_ms = shard.tick_ms(Instant::now());
        let mut core = shard.core();
        for check in checks.by_ref().take(SLOTS_AT_ONCE) {
            let state = known(check.key);
            if core.put(check, number, || state, tick_ms) {
                touched.added += 1;
                touched.restored += usize::from(state.is_some());
            }
        }
        drop(core);
        shard.wake();
    }
}
