// SPDX-License-Identifier: Apache-2.0
//! Health checker of a load balancer node.
//!
//! Reads the *checks file* ([`config`]), probes its targets ([`probe`]) when the
//! [`schedule`] says so, turns results into states ([`state`]), and hands *changed*
//! states over in the *result queue* ([`queue`]).
//!
//! The checks are split over a few threads by their keys. Each [`shard`] has a
//! [`wheel`] of deadlines and a runtime of its own, and shares nothing with the others;
//! the [`engine`] on the main thread reads the file, joins what belongs together
//! ([`compose`]), writes the queue, and lengthens intervals if the node cannot keep up
//! ([`load`]).

pub mod commands;
pub mod compose;
pub mod config;
pub mod engine;
pub mod key;
pub mod lateness;
pub mod load;
pub mod marks;
pub mod memory;
pub mod metrics;
pub mod privileges;
pub mod probe;
pub mod queue;
pub mod raw;
pub mod schedule;
pub mod shard;
pub mod slot;
pub mod state;
pub mod table;
pub mod tally;
pub mod together;
pub mod watch;
pub mod wheel;
