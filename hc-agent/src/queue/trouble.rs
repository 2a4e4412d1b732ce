// SPDX-License-Identifier: Apache-2.0
//! Logs the beginning and the end of a repeated failure.

use std::io;

use tracing::{error, info};

/// Tracks whether one kind of file can be written.
pub(super) struct Trouble {
    what: &'static str,
    lasts: bool,
}

impl Trouble {
    /// Without a failure so far.
    pub(super) const fn new(what: &'static str) -> Self {
        let lasts = false;
        Self { what, lasts }
    }

    /// The file was not written.
    pub(super) fn failed(&mut self, error: &io::Error, changes: usize) {
        if !std::mem::replace(&mut self.lasts, true) {
            error!(
                %error,
                changes,
                "cannot write {}; changes are kept, and success will be logged", self.what
            );
        }
    }

    /// The file was written; log the end of the failure.
    pub(super) fn is_over(&mut self) {
        if std::mem::take(&mut self.lasts) {
            info!("can write {} again", self.what);
        }
    }
}
