// SPDX-License-Identifier: Apache-2.0
//! `octavia-xdp-hc`, the health checker of an octavia-xdp-provider node.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use octavia_xdp_hc::commands::{Cli, Command, check_config, probe, run, status};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::CheckConfig(arguments) => check_config::run(&arguments),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
    };
    result.unwrap_or_else(|failed| {
        let _ = writeln!(std::io::stderr(), "octavia-xdp-hc: {failed}");
        ExitCode::FAILURE
    })
}
