// SPDX-License-Identifier: Apache-2.0
//! How memory is given back.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// The C library gives blocks above a threshold back to the system at once, but raises
/// the threshold with each of them. After a reload, a snapshot and a large table have
/// come and gone, half of the memory of 140,000 checks was holes. A threshold that is
/// set stays where it is; it can be set in the environment alone, before the start.
const THRESHOLD: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "131072");

/// Start the program again, as the same process, with a threshold that stays. Comes
/// back if it is set already, or if that fails, which costs memory and nothing else.
pub fn fix_threshold() {
    if std::env::var_os(THRESHOLD.0).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut words = std::env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = words.next() {
        again.arg0(name);
    }
    let _ = again.args(words).env(THRESHOLD.0, THRESHOLD.1).exec();
}
