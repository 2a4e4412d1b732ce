// SPDX-License-Identifier: Apache-2.0
//! Files of the agent: noticed when they change, and read.

pub mod checks;
mod file_events;
pub mod uplinks;
