// SPDX-License-Identifier: Apache-2.0
//! One file of the queue: a header of 64 bytes and records of 32, little endian.

use crate::key::Key;
use crate::reason::Reason;
use crate::state::State;

/// First bytes of every file.
pub const MAGIC: [u8; 4] = *b"OXPQ";
/// Version of the format.
pub const VERSION: u16 = 1;
/// Length of the header in bytes.
pub const HEADER_SIZE: usize = 64;
/// Length of a record in bytes.
pub const RECORD_SIZE: usize = 32;
/// Flag of a record: a probe of this boot agrees with the state.
pub const FLAG_VERIFIED: u8 = 1;

pub(super) const AT_MAGIC: usize = 0;
pub(super) const AT_VERSION: usize = 4;
pub(super) const AT_KIND: usize = 6;
pub(super) const AT_BOOT: usize = 8;
pub(super) const AT_FIRST: usize = 16;
pub(super) const AT_LAST: usize = 24;
pub(super) const AT_COUNT: usize = 32;
pub(super) const AT_RECORD_SIZE: usize = 36;
pub(super) const AT_LENGTH: usize = 40;
pub(super) const AT_CRC: usize = 48;
pub(super) const AT_STRETCH: usize = 52;
pub(super) const AT_RESERVED: usize = 54;

pub(super) const IN_KEY: usize = 0;
pub(super) const IN_SEQUENCE: usize = 8;
pub(super) const IN_TIME: usize = 16;
pub(super) const IN_STATE: usize = 24;
pub(super) const IN_REASON: usize = 25;
pub(super) const IN_FLAGS: usize = 26;
pub(super) const IN_RESERVED0: usize = 27;
pub(super) const IN_DETAIL: usize = 28;
pub(super) const IN_RESERVED1: usize = 30;

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FileKind {
    /// States that have changed.
    Delta = 1,
    /// The last state of every check.
    Snapshot = 2,
}

/// The state of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The check.
    pub key: Key,
    /// Number of the record in its boot, from 1; 0 if this boot never reported it.
    pub sequence: u64,
    /// Nanoseconds since 1970 (`CLOCK_REALTIME`) of the verdict, 0 without one.
    pub time_ns: u64,
    /// The verdict.
    pub state: State,
    /// Its reason.
    pub reason: Reason,
    /// Whether a probe of this boot agrees with the state.
    pub verified: bool,
    /// HTTP status, number of a TLS alert or cause of an SCTP ABORT, else 0.
    pub detail: u16,
}

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of the file.
    pub kind: FileKind,
    /// The process that wrote it.
    pub boot: u64,
    /// Delta: sequence of the first record; snapshot: 0.
    pub first_sequence: u64,
    /// Delta: sequence of the last record; snapshot: the last one it contains.
    pub last_sequence: u64,
    /// Snapshot: actual intervals in percent of those that the checks ask for, 0 if
    /// unknown. Delta: 0.
    pub stretch_percent: u16,
}

/// A decoded file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueFile {
    /// Its header.
    pub header: Header,
    /// Its records.
    pub records: Vec<Record>,
}

impl QueueFile {
    /// Encode the file.
    ///
    /// # Panics
    ///
    /// As [`encode`].
    pub fn encode(&self) -> Vec<u8> {
        encode(self.header, self.records.iter().copied())
    }
}

impl std::ops::Deref for QueueFile {
    type Target = Header;

    fn deref(&self) -> &Header {
        &self.header
    }
}

/// Why a file cannot be used; the names are those of `error_reasons` in the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Shorter than its header says.
    #[error("torn: {0} of {1} bytes")]
    Torn(usize, u64),
    /// Not a file of the queue.
    #[error("magic: {0:02x?}")]
    Magic([u8; 4]),
    /// An unknown version.
    #[error("version: {0}")]
    Version(u16),
    /// Longer than its header says, or inconsistent sizes.
    #[error("length: {count} records of {size} bytes in {length} bytes, {found} found")]
    Length {
        /// Records that the header counts.
        count: u32,
        /// Bytes of a record, by the header.
        size: u32,
        /// Bytes of payload, by the header.
        length: u64,
        /// Bytes of payload in the file.
        found: usize,
    },
    /// The checksum does not match.
    #[error("crc: {written:08x} written, {found:08x} found")]
    Crc {
        /// The checksum in the header.
        written: u32,
        /// The checksum of the content.
        found: u32,
    },
    /// A key of zero or an unknown state.
    #[error("record: key {0:016x}, state {1}")]
    Record(u64, u8),
    /// A reserved byte or flag is set.
    #[error("reserved: a byte that must be zero is not")]
    Reserved,
    /// Sequences that do not match the kind.
    #[error("sequence: {first} to {last}, {count} records")]
    Sequence {
        /// First sequence of the header.
        first: u64,
        /// Last sequence of the header.
        last: u64,
        /// Records in the file.
        count: usize,
    },
    /// An unknown kind, or not the expected one.
    #[error("kind: {0}")]
    Kind(u16),
}

impl FormatError {
    /// The reason's name in the contract.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Torn(..) => "torn",
            Self::Magic(_) => "magic",
            Self::Version(_) => "version",
            Self::Length { .. } => "length",
            Self::Crc { .. } => "crc",
            Self::Record(..) => "record",
            Self::Reserved => "reserved",
            Self::Sequence { .. } => "sequence",
            Self::Kind(_) => "kind",
        }
    }
}

/// CRC-32C over the header with its checksum as zero, then the payload.
fn checksum(data: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&data[..AT_CRC]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &data[AT_CRC + 4..])
}

fn put<const N: usize>(data: &mut [u8], at: usize, bytes: [u8; N]) {
    data[at..at + N].copy_from_slice(&bytes);
}

fn get<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&data[at..at + N]);
    bytes
}

/// Encode a file.
///
/// # Panics
///
/// With 2^32 records or more; the limit of checks is far below.
pub fn encode(header: Header, records: impl ExactSizeIterator<Item = Record>) -> Vec<u8> {
    let length = records.len() * RECORD_SIZE;
    let count = u32::try_from(records.len()).expect("fewer than 2^32 records");
    let mut data = vec![0; HEADER_SIZE + length];
    put(&mut data, AT_MAGIC, MAGIC);
    put(&mut data, AT_VERSION, VERSION.to_le_bytes());
    put(&mut data, AT_KIND, (header.kind as u16).to_le_bytes());
    put(&mut data, AT_BOOT, header.boot.to_le_bytes());
    put(&mut data, AT_FIRST, header.first_sequence.to_le_bytes());
    put(&mut data, AT_LAST, header.last_sequence.to_le_bytes());
    put(&mut data, AT_COUNT, count.to_le_bytes());
    let size = 32_u32; // RECORD_SIZE
    put(&mut data, AT_RECORD_SIZE, size.to_le_bytes());
    put(&mut data, AT_LENGTH, (length as u64).to_le_bytes());
    put(&mut data, AT_STRETCH, header.stretch_percent.to_le_bytes());
    for (record, out) in records.zip(data[HEADER_SIZE..].chunks_exact_mut(RECORD_SIZE)) {
        put(out, IN_KEY, record.key.get().to_le_bytes());
        put(out, IN_SEQUENCE, record.sequence.to_le_bytes());
        put(out, IN_TIME, record.time_ns.to_le_bytes());
        out[IN_STATE] = record.state as u8;
        out[IN_REASON] = record.reason.0;
        out[IN_FLAGS] = if record.verified { FLAG_VERIFIED } else { 0 };
        put(out, IN_DETAIL, record.detail.to_le_bytes());
    }
    let crc = checksum(&data);
    put(&mut data, AT_CRC, crc.to_le_bytes());
    data
}

/// Decode a file, refusing everything that a correct writer never produces.
pub fn decode(data: &[u8]) -> Result<QueueFile, FormatError> {
    check_envelope(data)?;
    let mut records = Vec::with_capacity(data.len() / RECORD_SIZE);
    for raw in data[HEADER_SIZE..].chunks_exact(RECORD_SIZE) {
        records.push(decode_record(raw)?);
    }
    let (header, _) = data.split_at(HEADER_SIZE);
    if header[AT_RESERVED..].iter().any(|b| *b != 0) {
        return Err(FormatError::Reserved);
    }
    let first = u64::from_le_bytes(get(data, AT_FIRST));
    let last = u64::from_le_bytes(get(data, AT_LAST));
    let stretch_percent = u16::from_le_bytes(get(data, AT_STRETCH));
    let (kind, fits) = match u16::from_le_bytes(get(data, AT_KIND)) {
        1 => {
            if stretch_percent != 0 {
                return Err(FormatError::Reserved);
            }
            let expected = (first..=last).take(records.len());
            let span = last.checked_sub(first);
            let fits = first > 0
                && span
                    .is_some_and(|span| span == (records.len() as u64).wrapping_sub(1))
                && records.iter().map(|r| r.sequence).eq(expected);
            (FileKind::Delta, fits)
        }
        2 => {
            let fits = first == 0 && records.iter().all(|r| r.sequence <= last);
            (FileKind::Snapshot, fits)
        }
        other => return Err(FormatError::Kind(other)),
    };
    if !fits {
        let count = records.len();
        return Err(FormatError::Sequence { first, last, count });
    }
    let header = Header {
        kind,
        boot: u64::from_le_bytes(get(data, AT_BOOT)),
        first_sequence: first,
        last_sequence: last,
        stretch_percent,
    };
    Ok(QueueFile { header, records })
}

/// Check magic, version, lengths and checksum, in this order.
fn check_envelope(data: &[u8]) -> Result<(), FormatError> {
    if data.len() < HEADER_SIZE {
        return Err(FormatError::Torn(data.len(), HEADER_SIZE as u64));
    }
    let magic = get(data, AT_MAGIC);
    if magic != MAGIC {
        return Err(FormatError::Magic(magic));
    }
    let version = u16::from_le_bytes(get(data, AT_VERSION));
    if version != VERSION {
        return Err(FormatError::Version(version));
    }
    let count = u32::from_le_bytes(get(data, AT_COUNT));
    let size = u32::from_le_bytes(get(data, AT_RECORD_SIZE));
    let length = u64::from_le_bytes(get(data, AT_LENGTH));
    let found = data.len() - HEADER_SIZE;
    let disagrees =
        size as usize != RECORD_SIZE || length != u64::from(count) * RECORD_SIZE as u64;
    if disagrees || found as u64 > length {
        return Err(FormatError::Length {
            count,
            size,
            length,
            found,
        });
    }
    if (found as u64) < length {
        return Err(FormatError::Torn(data.len(), HEADER_SIZE as u64 + length));
    }
    let written = u32::from_le_bytes(get(data, AT_CRC));
    let found = checksum(data);
    if written != found {
        return Err(FormatError::Crc { written, found });
    }
    Ok(())
}

fn decode_record(raw: &[u8]) -> Result<Record, FormatError> {
    let number = u64::from_le_bytes(get(raw, IN_KEY));
    let state = raw[IN_STATE];
    let (Some(key), Some(state)) = (Key::new(number), State::from_number(state)) else {
        return Err(FormatError::Record(number, state));
    };
    let reserved = [raw[IN_RESERVED0], raw[IN_RESERVED1], raw[IN_RESERVED1 + 1]];
    if raw[IN_FLAGS] & !FLAG_VERIFIED != 0 || reserved != [0; 3] {
        return Err(FormatError::Reserved);
    }
    Ok(Record {
        key,
        sequence: u64::from_le_bytes(get(raw, IN_SEQUENCE)),
        time_ns: u64::from_le_bytes(get(raw, IN_TIME)),
        state,
        reason: Reason(raw[IN_REASON]),
        verified: raw[IN_FLAGS] & FLAG_VERIFIED != 0,
        detail: u16::from_le_bytes(get(raw, IN_DETAIL)),
    })
}
