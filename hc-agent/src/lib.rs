// SPDX-License-Identifier: Apache-2.0
//! Health checker of a load balancer node.
//!
//! Reads the *checks file* ([`config`]), probes its targets ([`probe`]) when the
//! [`schedule`] says so, turns results into states ([`state`]), and hands *changed*
//! states over in the *result queue* ([`queue`]). [`engine`] ties them together;
//! everything runs on one thread.

pub mod commands;
pub mod config;
pub mod engine;
pub mod key;
pub mod lateness;
pub mod metrics;
pub mod probe;
pub mod queue;
pub mod raw;
pub mod schedule;
pub mod state;
pub mod watch;
pub mod wheel;
