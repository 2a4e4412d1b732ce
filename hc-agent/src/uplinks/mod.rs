// SPDX-License-Identifier: Apache-2.0
//! Since when this node has a working uplink, as its agent reports, and whether a probe
//! without an answer counts.

pub mod file;
pub mod judgement;
