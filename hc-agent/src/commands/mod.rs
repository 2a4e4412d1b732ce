// SPDX-License-Identifier: Apache-2.0
//! The commands of the program, one file each.

pub mod burst;
pub mod check_config;
pub mod probe;
#[cfg(test)]
mod reference;
pub mod run;
pub mod status;
pub mod threads;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Benchmarks refuse a debug build by its version.
const VERSION: &str = if cfg!(debug_assertions) {
    concat!(env!("CARGO_PKG_VERSION"), " (with debug assertions)")
} else {
    env!("CARGO_PKG_VERSION")
};

/// Health checker of an octavia-xdp-provider node.
#[derive(Debug, Parser)]
#[command(
    name = "octavia-xdp-hc",
    version = VERSION,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Cli {
    /// The same as the command check-config
    #[arg(long, value_name = "FILE", required = true)]
    check_config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

impl Cli {
    /// What to do; `None` cannot happen.
    pub fn command(self) -> Option<Command> {
        let file = self.check_config.map(check_config::Arguments::new);
        self.command.or(file.map(Command::CheckConfig))
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the checks of the checks file and report changes to the result queue
    Run(run::Arguments),
    /// Check whether a checks file is valid
    CheckConfig(check_config::Arguments),
    /// Probe one target once and explain the result
    Probe(probe::Arguments),
    /// Show the checks, live or from the snapshot of a result queue
    Status(status::Arguments),
    /// Probe every check of a checks file once and print the figures as JSON
    Burst(burst::Arguments),
}

/// Why a command failed, as one line for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub String);

impl Failed {
    pub(crate) fn because(
        what: impl std::fmt::Display,
        why: impl std::fmt::Display,
    ) -> Self {
        Self(format!("{what}: {why}"))
    }
}

/// Where probes come from.
#[derive(Clone, Debug, clap::Args)]
pub struct SourceArguments {
    /// Source address of probes, for targets of its family
    #[arg(long, env = "OCTAVIA_XDP_HC_SOURCE_ADDRESS")]
    source_address: Option<std::net::IpAddr>,
    /// Network device for probes
    #[arg(long, env = "OCTAVIA_XDP_HC_INTERFACE")]
    interface: Option<String>,
}

impl SourceArguments {
    pub(crate) fn source(&self) -> crate::probe::Source {
        crate::probe::Source::new(self.source_address, self.interface.clone())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as CommandFactory>::command().debug_assert();
    }

    #[test]
    fn two_spellings_of_check_config() {
        for words in [
            ["octavia-xdp-hc", "check-config", "file"],
            ["octavia-xdp-hc", "--check-config", "file"],
        ] {
            let command = Cli::try_parse_from(words).unwrap().command();
            assert!(matches!(command, Some(Command::CheckConfig(_))));
        }
        assert!(Cli::try_parse_from(["octavia-xdp-hc"]).is_err());
    }
}
