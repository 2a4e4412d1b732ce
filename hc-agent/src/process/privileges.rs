// SPDX-License-Identifier: Apache-2.0
//! What the process gives up once it has what it needs.

use std::panic::resume_unwind;
use std::thread;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};
use tracing::{info, warn};

/// All that this program may use later: files in a queue that another user owns, if it
/// was started as root. Raw sockets for pings and SCTP are open by now.
const USEFUL: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// What marks of packets take, since Linux 5.17.
const MARKS: CapabilitySet = CapabilitySet::NET_RAW;

/// Give up every capability that is of no use here, for this thread and those that it
/// starts from now on, and ways to get some back. `marks` keeps that for marks.
pub fn reduce(marks: bool) {
    if let Err(error) = try_reduce(marks) {
        warn!(%error, "cannot give up privileges");
    }
}

/// Do something in a thread that has no capabilities: those that it starts have none.
///
/// # Panics
///
/// If what is done does.
pub fn without<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    let bare = move || {
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        // No error can be logged yet; it costs a thread that can do more than needed.
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
