// SPDX-License-Identifier: Apache-2.0
//! Tests from the outside, in one program: linking one for each file would take longer
//! than running them.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "a test says what it skips")]
#![allow(
    clippy::disallowed_methods,
    reason = "threads of tests may sleep, block and read real time"
)]

mod support;

mod checker;
mod checks_file;
mod faults;
mod fuzz;
mod handoff;
mod icmp_limits;
mod layout;
mod live_table;
mod overload;
mod parting;
mod patience;
mod privileges;
mod probes_proxy_protocol;
mod probes_raw;
mod probes_source;
mod probes_table;
mod tls_servers;
mod uplinks;
