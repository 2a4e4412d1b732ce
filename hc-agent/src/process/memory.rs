// SPDX-License-Identifier: Apache-2.0
//! Returns freed memory to the system.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// The C library returns freed blocks above a threshold to the system at once, but
/// raises the threshold with each of them. With 140,000 checks, after a reload, a
/// snapshot and a large table, half of the memory was holes. An explicit threshold
/// stays fixed, and can only be set in the environment before the start.
const THRESHOLD: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "131072");

/// Re-execute the program in the same process with a fixed threshold. Returns if the
/// threshold is set already, or on failure, which only costs memory.
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
