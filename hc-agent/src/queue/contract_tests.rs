// SPDX-License-Identifier: Apache-2.0
//! Tests the format against its contract, which the Python side tests too.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use super::format::*;
use super::{directory, spool};
use crate::key::Key;
use crate::reason::Reason;
use crate::state::State;

const CONTRACT: &str =
    include_str!("../../../octavia_xdp_provider/contracts/result-queue.json");

fn contract() -> Value {
    serde_json::from_str(CONTRACT).unwrap()
}

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
        .collect()
}

#[derive(Deserialize)]
struct Decoded {
    kind: u16,
    boot: u64,
    first_sequence: u64,
    last_sequence: u64,
    #[serde(default)]
    stretch_percent: u16,
    records: Vec<DecodedRecord>,
}

#[derive(Deserialize)]
struct DecodedRecord {
    key: u64,
    sequence: u64,
    time_ns: u64,
    state: u8,
    reason: u8,
    flags: u8,
    detail: u16,
}

impl Decoded {
    fn file(&self) -> QueueFile {
        QueueFile {
            header: Header {
                kind: match self.kind {
                    1 => FileKind::Delta,
                    2 => FileKind::Snapshot,
                    other => panic!("kind {other}"),
                },
                boot: self.boot,
                first_sequence: self.first_sequence,
                last_sequence: self.last_sequence,
                stretch_percent: self.stretch_percent,
            },
            records: self
                .records
                .iter()
                .map(|r| Record {
                    key: Key::new(r.key).unwrap(),
                    sequence: r.sequence,
                    time_ns: r.time_ns,
                    state: State::from_number(r.state).unwrap(),
                    reason: Reason(r.reason),
                    verified: r.flags == FLAG_VERIFIED,
                    detail: r.detail,
                })
                .collect(),
        }
    }
}

#[test]
fn offsets_and_sizes_are_those_of_the_contract() {
    let contract = contract();
    let check = |table: &str, size: usize, places: &[(&str, usize, usize)]| {
        let table = &contract[table];
        assert_eq!(table["size"], size);
        let fields = table["fields"].as_array().unwrap();
        assert_eq!(fields.len(), places.len());
        for (field, (name, offset, size)) in fields.iter().zip(places) {
            assert_eq!(field["name"], *name);
            assert_eq!(field["offset"], *offset, "{name}");
            assert_eq!(field["size"], *size, "{name}");
        }
    };
    check(
        "header",
        HEADER_SIZE,
        &[
            ("magic", AT_MAGIC, 4),
            ("version", AT_VERSION, 2),
            ("kind", AT_KIND, 2),
            ("boot", AT_BOOT, 8),
            ("first_sequence", AT_FIRST, 8),
            ("last_sequence", AT_LAST, 8),
            ("count", AT_COUNT, 4),
            ("record_size", AT_RECORD_SIZE, 4),
            ("payload_length", AT_LENGTH, 8),
            ("crc32c", AT_CRC, 4),
            ("stretch_percent", AT_STRETCH, 2),
            ("reserved", AT_RESERVED, HEADER_SIZE - AT_RESERVED),
        ],
    );
    check(
        "record",
        RECORD_SIZE,
        &[
            ("key", IN_KEY, 8),
            ("sequence", IN_SEQUENCE, 8),
            ("time_ns", IN_TIME, 8),
            ("state", IN_STATE, 1),
            ("reason", IN_REASON, 1),
            ("flags", IN_FLAGS, 1),
            ("reserved0", IN_RESERVED0, 1),
            ("detail", IN_DETAIL, 2),
            ("reserved1", IN_RESERVED1, 2),
        ],
    );
}

#[test]
fn constants_and_names_are_those_of_the_contract() {
    let contract = contract();
    let constants = &contract["constants"];
    assert_eq!(contract["byte_order"], "little");
    assert_eq!(constants["magic"].as_str().unwrap().as_bytes(), MAGIC);
    assert_eq!(constants["version"], VERSION);
    assert_eq!(constants["flag_verified"], FLAG_VERIFIED);
    assert_eq!(constants["max_pending_deltas"], spool::MAX_PENDING);
    assert_eq!(contract["kinds"]["delta"], FileKind::Delta as u16);
    assert_eq!(contract["kinds"]["snapshot"], FileKind::Snapshot as u16);
    for (name, number) in contract["states"].as_object().unwrap() {
        let number = u8::try_from(number.as_u64().unwrap()).unwrap();
        assert_eq!(State::from_number(number).unwrap().name(), name);
    }
    for (name, number) in contract["reasons"].as_object().unwrap() {
        let number = u8::try_from(number.as_u64().unwrap()).unwrap();
        assert_eq!(Reason(number).name(), name);
    }
    // The contract has no further reasons.
    let reasons = contract["reasons"].as_object().unwrap().len();
    assert_eq!(Reason(u8::try_from(reasons).unwrap()).name(), "other");
    let checksum = &contract["checksum"];
    let input = checksum["check_input"].as_str().unwrap();
    assert_eq!(checksum["check_value"], crc32c::crc32c(input.as_bytes()));
    let names = &contract["names"];
    assert_eq!(names["snapshot"], directory::SNAPSHOT);
    assert_eq!(names["rejected"], directory::REJECTED);
    assert_eq!(names["temporary_prefix"], directory::TEMPORARY_PREFIX);
    assert_eq!(names["delta"], "{boot:016x}-{first_sequence:016x}.delta");
    assert_eq!(
        directory::delta_name(0xab, 1),
        "00000000000000ab-0000000000000001.delta"
    );
}

#[test]
fn vectors_decode_and_encode_to_the_same_bytes() {
    for vector in contract()["vectors"].as_array().unwrap() {
        let name = &vector["name"];
        let data = bytes(&vector["hex"]);
        let wanted = Decoded::deserialize(&vector["decoded"]).unwrap().file();
        assert_eq!(decode(&data).as_ref(), Ok(&wanted), "{name}");
        assert_eq!(wanted.encode(), data, "{name}");
    }
}

#[test]
fn broken_vectors_are_refused_with_their_reason() {
    let contract = contract();
    for vector in contract["broken"].as_array().unwrap() {
        let error = decode(&bytes(&vector["hex"])).unwrap_err();
        assert_eq!(error.reason(), vector["reason"], "{}", vector["name"]);
        assert!(contract["error_reasons"][error.reason()].is_string());
    }
}

prop_compose! {
    fn any_record()(
        key in 1..=u64::MAX,
        time_ns: u64,
        state in 0u8..3,
        reason: u8,
        verified: bool,
        detail: u16,
    ) -> Record {
        Record {
            key: Key::new(key).unwrap(),
            sequence: 0,
            time_ns,
            state: State::from_number(state).unwrap(),
            reason: Reason(reason),
            verified,
            detail,
        }
    }
}

prop_compose! {
    fn any_file()(
        snapshot: bool,
        boot: u64,
        first in 1..u64::MAX / 2,
        stretch_percent: u16,
        mut records in prop::collection::vec(any_record(), 1..20),
    ) -> QueueFile {
        for (record, sequence) in records.iter_mut().zip(first..) {
            record.sequence = sequence;
        }
        let header = Header {
            kind: if snapshot { FileKind::Snapshot } else { FileKind::Delta },
            boot,
            first_sequence: if snapshot { 0 } else { first },
            last_sequence: first + records.len() as u64 - 1,
            stretch_percent: if snapshot { stretch_percent } else { 0 },
        };
        QueueFile { header, records }
    }
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(file in any_file()) {
        prop_assert_eq!(decode(&file.encode()), Ok(file));
    }

    #[test]
    fn every_flipped_bit_is_found(file in any_file(), at: prop::sample::Index, bit in 0u8..8) {
        let mut data = file.encode();
        let at = at.index(data.len());
        data[at] ^= 1u8 << bit;
        prop_assert!(decode(&data).is_err());
    }

    #[test]
    fn every_cut_is_torn(file in any_file(), at: prop::sample::Index) {
        let data = file.encode();
        let cut = &data[..at.index(data.len())];
        prop_assert_eq!(decode(cut).unwrap_err().reason(), "torn");
    }

    #[test]
    fn noise_is_refused_without_a_panic(data in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&data);
    }
}
