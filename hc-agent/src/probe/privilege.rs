// SPDX-License-Identifier: Apache-2.0
//! What this process may do, and soon may not.

use std::io;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Give up `CAP_NET_RAW` for good. Returns whether there was one to give up.
///
/// Sockets that are open stay usable, so [`Source::open`](super::Source::open) comes
/// first. Capabilities belong to a thread: call it before another one is started.
pub fn drop_net_raw() -> io::Result<bool> {
    let mut sets = capabilities(None)?;
    let had = sets.permitted.contains(CapabilitySet::NET_RAW);
    if had || sets.inheritable.contains(CapabilitySet::NET_RAW) {
        sets.effective.remove(CapabilitySet::NET_RAW);
        sets.permitted.remove(CapabilitySet::NET_RAW);
        sets.inheritable.remove(CapabilitySet::NET_RAW);
        set_capabilities(None, sets)?;
    }
    Ok(had)
}
