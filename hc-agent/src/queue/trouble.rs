// SPDX-License-Identifier: Apache-2.0
//! Something that fails again and again is logged when that begins and when it ends.

use std::io;

use tracing::{error, info};

/// Whether one kind of file can be written.
pub(super) struct Trouble {
    what: &'static str,
    lasts: bool,
}

impl Trouble {
    /// None yet.
    pub(super) const fn new(what: &'static str) -> Self {
        let lasts = false;
        Self { what, lasts }
    }

    /// It was not written.
    pub(super) fn failed(&mut self, error: &io::Error, changes: usize) {
        if !std::mem::replace(&mut self.lasts, true) {
            error!(
                %error,
                changes,
                "cannot write {}, and will say when it can; changes are kept", self.what
            );
        }
    }

    /// It was.
    pub(super) fn is_over(&mut self) {
        if std::mem::take(&mut self.lasts) {
            info!("can write {} again", self.what);
        }
    }
}
