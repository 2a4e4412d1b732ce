// SPDX-License-Identifier: Apache-2.0
//! The commands of the program, a file each.

pub mod check_config;
pub mod probe;
pub mod run;
pub mod status;

use clap::{Parser, Subcommand};

/// Health checker of an octavia-xdp-provider node.
#[derive(Debug, Parser)]
#[command(name = "octavia-xdp-hc", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Probe what the checks file says and report changes to the result queue
    Run(run::Arguments),
    /// Say whether a checks file would be taken
    CheckConfig(check_config::Arguments),
    /// Probe one target once and explain the result
    Probe(probe::Arguments),
    /// Show the states in the snapshot of a result queue
    Status(status::Arguments),
}

/// Why a command failed: one line for a person.
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
    /// Network device that probes leave by
    #[arg(long, env = "OCTAVIA_XDP_HC_INTERFACE")]
    interface: Option<String>,
}

impl SourceArguments {
    pub(crate) fn source(&self) -> crate::probe::Source {
        crate::probe::Source {
            address: self.source_address,
            interface: self.interface.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
