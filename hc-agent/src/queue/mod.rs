// SPDX-License-Identifier: Apache-2.0
//! The result queue passes changed states to the result handler.
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
