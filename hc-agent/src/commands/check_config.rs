// SPDX-License-Identifier: Apache-2.0
//! `check-config`

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use super::Failed;
use crate::config::{self, Kind};

/// What is checked.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The checks file
    file: PathBuf,
}

/// Read the file as `run` would.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failed> {
    let checks = config::load(&arguments.file)
        .map_err(|e| Failed::because(arguments.file.display(), e))?;
    let http = checks
        .iter()
        .filter(|c| matches!(c.kind, Kind::Http(_)))
        .count();
    let rate: f64 = checks.iter().map(|c| 1.0 / c.delay.as_secs_f64()).sum();
    let _ = writeln!(
        stdout(),
        "{}: {} checks ({} tcp, {http} http), {rate:.1} probes a second",
        arguments.file.display(),
        checks.len(),
        checks.len() - http,
    );
    Ok(ExitCode::SUCCESS)
}
