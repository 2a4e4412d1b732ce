// SPDX-License-Identifier: Apache-2.0
//! When checks are probed, and how the node copes if it cannot keep up.
//!
//! [`grid`] gives each check its place in its interval, [`wheel`] stores the deadlines,
//! [`lateness`] measures how late this process itself is, and [`overload`] lengthens
//! all intervals while the node is behind.

pub mod grid;
pub mod lateness;
pub mod overload;
pub mod wheel;
