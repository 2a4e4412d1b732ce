// SPDX-License-Identifier: Apache-2.0
//! Drops privileges once the process has opened what it needs.

use std::panic::resume_unwind;
use std::thread;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};
use tracing::{info, warn};

/// Capabilities needed later: to write a queue owned by another user, if started as
/// root. Raw sockets for pings and SCTP are open by now.
const USEFUL: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// Needed to set packet marks, since Linux 5.17.
const MARKS: CapabilitySet = CapabilitySet::NET_RAW;

/// Drop every capability that is not needed, for this thread and the threads it starts
/// from now on, and prevent regaining them. `marks` keeps the one for marks.
pub fn reduce(marks: bool) {
    if let Err(error) = try_reduce(marks) {
        warn!(%error, "cannot give up privileges");
    }
}

/// Call a function in a thread without capabilities, which its own threads inherit.
///
/// # Panics
///
/// If the function panics.
pub fn without<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    let bare = move || {
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        // Errors cannot be logged yet; on failure the thread keeps needless capabilities.
        let _ = set_capabilities(None, none);
        what()
    };
    let done = thread::scope(|scope| scope.spawn(bare).join());
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

fn try_reduce(marks: bool) -> rustix::io::Result<()> {
    set_no_new_privs(true)?;
    let mut sets = capabilities(None)?;
    let useful = if marks { USEFUL | MARKS } else { USEFUL };
    let kept = sets.permitted & useful;
    sets.permitted = kept;
    sets.effective = kept;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)?;
    info!(kept = ?kept, "privileges reduced");
    Ok(())
}
