// SPDX-License-Identifier: Apache-2.0
//! `octavia-xdp-hc`, the health checker of an octavia-xdp-provider node.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use octavia_xdp_hc::commands::{Cli, Command, burst, check_config, probe, run, status};

fn main() -> ExitCode {
    let result = match Cli::parse().command() {
        Some(Command::Run(arguments)) => run::run(&arguments),
        Some(Command::CheckConfig(arguments)) => check_config::run(&arguments),
        Some(Command::Probe(arguments)) => probe::run(&arguments),
        Some(Command::Status(arguments)) => status::run(&arguments),
        Some(Command::Burst(arguments)) => burst::run(&arguments),
        None => return ExitCode::FAILURE,
    };
    result.unwrap_or_else(|failed| {
        let _ = writeln!(std::io::stderr(), "octavia-xdp-hc: {failed}");
        ExitCode::FAILURE
    })
}
