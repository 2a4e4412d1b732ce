// SPDX-License-Identifier: Apache-2.0
//! The result queue: changed states on their way to the result handler.
//!
//! `result-queue.json` is the definition; [`format`] writes and reads single files,
//! [`directory`] knows the names, [`spool`] writes.

#[cfg(test)]
mod contract_tests;
pub mod directory;
pub mod format;
mod reserve;
pub mod spool;
mod trouble;
