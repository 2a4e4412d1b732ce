// SPDX-License-Identifier: Apache-2.0
//! Since when this node has a working uplink, as its agent says, and what a probe
//! without an answer says about its target then.

pub mod file;
pub mod judgement;
