// SPDX-License-Identifier: Apache-2.0
//! What the process sets up for itself before it works.

pub mod memory;
pub mod privileges;
