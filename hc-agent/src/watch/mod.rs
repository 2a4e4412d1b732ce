// SPDX-License-Identifier: Apache-2.0
//! Watches the agent's files and reads them when they change.

pub mod checks;
mod file_events;
pub mod uplinks;
