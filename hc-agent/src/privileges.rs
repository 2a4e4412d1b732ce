// SPDX-License-Identifier: Apache-2.0
//! What the process gives up once it has what it needs.

use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};
use tracing::{info, warn};

/// All that this program may use later: files in a queue that another user owns, if it
/// was started as root. Raw sockets for pings and SCTP are open by now.
const USEFUL: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// Give up every capability that is of no use here, for this thread and those that it
/// starts from now on, and ways to get some back.
pub fn reduce() {
    if let Err(error) = try_reduce() {
        warn!(%error, "cannot give up privileges");
    }
}

fn try_reduce() -> rustix::io::Result<()> {
    set_no_new_privs(true)?;
    let mut sets = capabilities(None)?;
    let kept = sets.permitted & USEFUL;
    sets.permitted = kept;
    sets.effective = kept;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)?;
    info!(kept = ?kept, "privileges reduced");
    Ok(())
}
