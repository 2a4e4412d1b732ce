// SPDX-License-Identifier: Apache-2.0
//! Passes the agent's report on uplinks to all threads.

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::shard::Shard;
use crate::shard::live_table::{self, SharedSummary};
use crate::uplinks::file::{Uplink, Uplinks};

/// Pass the report to the shards, show it in the summary, and log changes.
pub(super) fn take(shards: &[Arc<Shard>], summary: &SharedSummary, uplinks: Uplinks) {
    let now = Instant::now();
    let clock_ns = monotonic_ns();
    for shard in shards {
        shard.set_uplinks(uplinks, clock_ns, now);
    }
    let before = std::mem::replace(&mut live_table::lock(summary).uplinks, uplinks);
    for (family, before, now) in [
        ("IPv4", before.v4, uplinks.v4),
        ("IPv6", before.v6, uplinks.v6),
    ] {
        match (is_out(before), is_out(now)) {
            (false, true) => {
                warn!(family, "no uplink works: failures of probes are discarded");
            }
            (true, false) => info!(family, "failures of probes count again"),
            _ => {}
        }
    }
}

fn is_out(known: Option<Uplink>) -> bool {
    known.is_some_and(|known| known.since_ns.is_none())
}

fn monotonic_ns() -> u64 {
    let clock = clock_gettime(ClockId::Monotonic);
    let time = Duration::new(
        u64::try_from(clock.tv_sec).unwrap_or(0),
        u32::try_from(clock.tv_nsec).unwrap_or(0),
    );
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
