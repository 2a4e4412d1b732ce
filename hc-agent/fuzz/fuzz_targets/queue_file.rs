// SPDX-License-Identifier: Apache-2.0
#![no_main]

#[path = "../bodies/mod.rs"]
#[allow(dead_code)]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::queue_file(data));
