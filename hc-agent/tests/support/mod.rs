// SPDX-License-Identifier: Apache-2.0
//! Support for tests.

pub(crate) mod documents;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod preload;
pub(crate) mod random;
pub(crate) mod sctp_responder;
pub(crate) mod server;
