// SPDX-License-Identifier: Apache-2.0
//! Giving the threads another set of checks, of which only what differs is touched.

use std::sync::Arc;

use tokio::time::Instant;

use super::Shard;
use crate::config::{Check, Patience, patience_by_key};
use crate::key::Key;
use crate::schedule::grid;
use crate::state::State;

/// Check slots that a reload touches before the thread they belong to gets its turn.
const SLOTS_AT_ONCE: usize = 256;

/// How many checks a reload has touched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Touched {
    /// New ones.
    pub added: usize,
    /// New ones whose state an earlier run has left.
    pub restored: usize,
    /// Those that were not named any more.
    pub removed: usize,
}

/// Let each shard have its share of these checks, and no others. `patience` is about
/// checks of members that are moving; `number` names the reload; `known` returns the
/// state that an earlier run has left.
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
