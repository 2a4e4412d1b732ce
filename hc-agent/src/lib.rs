// SPDX-License-Identifier: Apache-2.0
//! Health checker of a load balancer node.
//!
//! Reads the *checks file* ([`config`]), probes its targets ([`probe`]) when the
//! [`schedule`] has them due, turns results into states ([`state`]), and writes
//! *changed* states to the *result queue* ([`queue`]).
//!
//! The checks are distributed over a few threads by their keys. Each [`shard`] has a
//! [wheel](schedule::wheel) of deadlines and a runtime of its own, and shares nothing
//! with the others; the [`engine`] on the main thread takes checks, combines results
//! ([`aggregate`]), writes the queue, and lengthens intervals if the node cannot keep
//! up ([`schedule::overload`]).
//!
//! Modules import one way; `tests/layout.rs` checks it. From the bottom up: [`key`],
//! [`state`], [`reason`], [`verdict`], [`uplinks`]; [`config`] and [`schedule`];
//! [`probe`]; [`shard`]; [`metrics`] and [`aggregate`]; [`queue`]; [`engine`];
//! [`watch`]; [`commands`].

pub mod aggregate;
pub mod commands;
pub mod config;
pub mod engine;
pub mod key;
pub mod metrics;
pub mod probe;
pub mod process;
pub mod queue;
pub mod reason;
pub mod schedule;
pub mod shard;
pub mod state;
pub mod uplinks;
pub mod verdict;
pub mod watch;

/// Whether randomised and repetitive tests run for long.
#[cfg(test)]
pub(crate) fn is_long_form() -> bool {
    std::env::var("OCTAVIA_XDP_TESTS").is_ok_and(|form| form == "long")
}
