// SPDX-License-Identifier: Apache-2.0
//! Setup of the process before it starts work.

pub mod memory;
pub mod privileges;
