// SPDX-License-Identifier: Apache-2.0
//! The fuzz targets without a fuzzer: good inputs, changed at random, the same in each
//! run.
//!
//! `FUZZ_ROUNDS` is the number of inputs for each target, `FUZZ_SEED` the start.

#[path = "../fuzz/bodies/mod.rs"]
#[allow(unreachable_pub, reason = "shared with another crate")]
mod bodies;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

use octavia_xdp_hc::queue::format::HEADER_SIZE;
use serde_json::Value;

use crate::support::random::Random;

const QUEUE: &str =
    include_str!("../../octavia_xdp_provider/contracts/result-queue.json");
const CHECKS: &str =
    include_str!("../../octavia_xdp_provider/contracts/checks-vectors.json");

fn byte(random: &mut Random) -> u8 {
    // Bytes that mean something to one of the formats.
    const MEANINGFUL: &[u8] = b"\0\x01\x7f\x80\xff\r\n :/-.019HTPacdefx{}[]\",";
    let any = random.next().to_le_bytes()[0];
    match random.below(3) {
        0 => any,
        _ => MEANINGFUL[random.index(MEANINGFUL.len())],
    }
}

/// One to eight changes: bytes, cuts, copies, and parts of other inputs.
fn change(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut data = seeds[random.index(seeds.len())].clone();
    for _ in 0..=random.below(8) {
        let at = random.index(data.len() + 1);
        let longest = 1usize << random.below(8);
        let length = random.index(longest);
        match random.below(7) {
            0 if at < data.len() => data[at] = byte(random),
            1 if at < data.len() => data[at] ^= 1 << random.below(8),
            2 => data.truncate(at),
            3 => data.insert(at, byte(random)),
            4 => {
                data.drain(at..(at + length).min(data.len()));
            }
            5 => {
                let again = data[at..(at + length).min(data.len())].to_vec();
                data.splice(at..at, again);
            }
            6 => {
                let other = &seeds[random.index(seeds.len())];
                let start = random.index(other.len() + 1);
                let end = (start + length).min(other.len());
                data.splice(at..at, other[start..end].iter().copied());
            }
            _ => {}
        }
    }
    data
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn run(name: &str, seeds: &[Vec<u8>], body: impl Fn(&[u8])) {
    let rounds = number("FUZZ_ROUNDS", 20_000);
    let seed = number("FUZZ_SEED", 1);
    let mut random = Random(seed);
    let try_it = |data: &[u8]| {
        let result = catch_unwind(AssertUnwindSafe(|| body(data)));
        assert!(result.is_ok(), "{name}: FUZZ_SEED={seed} finds {data:02x?}");
    };
    for data in seeds {
        try_it(data);
    }
    for _ in 0..rounds {
        try_it(&change(&mut random, seeds));
    }
}

/// Give a queue file the checksum that its content has.
fn reseal(data: &mut [u8]) {
    const CRC: std::ops::Range<usize> = 48..52;
    if data.len() >= HEADER_SIZE {
        data[CRC].fill(0);
        let crc = crc32c::crc32c(data);
        data[CRC].copy_from_slice(&crc.to_le_bytes());
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

#[test]
fn changed_http_responses_break_no_promise() {
    let flood = [b"HTTP/1.1 100 Continue\r\nA: ".as_slice(), &[b'a'; 9000]].concat();
    let texts: [&[u8]; 9] = [
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 503 Service Unavailable\r\nServer: x\r\nContent-Length: 2\r\n\r\nno",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\nA: b\r\n\r\nHTTP/1.1 204\r\n\r\n",
        b"\r\n\r\nHTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        &flood,
    ];
    run(
        "http_response",
        &texts.map(<[u8]>::to_vec),
        bodies::http_response,
    );
}

#[test]
fn changed_packets_break_no_promise() {
    let packets = [
        "0800f7fd00010001".to_owned() + &"00".repeat(16),
        "0000f7fd00010001".to_owned() + &"00".repeat(16),
        "8100f7fd00010001".to_owned(),
        "0301000000000000".to_owned() + "450000200000000040010000" + &"7f".repeat(20),
        "0050c0010000000100000000".to_owned() + "02000018" + &"00".repeat(20),
        "0050c0010000000100000000".to_owned() + "06000004",
    ];
    run("packet", &packets.map(|hex| bytes(&hex)), bodies::packet);
}

#[test]
fn changed_checks_files_break_no_promise() {
    let all: Value = serde_json::from_str(CHECKS).unwrap();
    let lists = ["valid", "invalid"].map(|name| all[name].as_array().unwrap());
    let seeds: Vec<_> = lists
        .into_iter()
        .flatten()
        .map(|vector| vector["document"].to_string().into_bytes())
        .collect();
    run("checks_file", &seeds, bodies::checks_file);
}

#[test]
fn changed_queue_files_break_no_promise() {
    let all: Value = serde_json::from_str(QUEUE).unwrap();
    let lists = ["vectors", "broken"].map(|name| all[name].as_array().unwrap());
    let seeds: Vec<_> = lists
        .into_iter()
        .flatten()
        .map(|vector| bytes(vector["hex"].as_str().unwrap()))
        .collect();
    run("queue_file", &seeds, |data| {
        bodies::queue_file(data);
        // Behind the checksum, where chance alone never comes.
        let mut sealed = data.to_vec();
        reseal(&mut sealed);
        bodies::queue_file(&sealed);
    });
}
