# SPDX-License-Identifier: Apache-2.0
"""Files of the result queue, which the health checker writes.

The only definition of the format is ``contracts/result-queue.json``. This
module builds its layouts from that document on import, so it contains neither
offsets nor sizes. See ``doc/source/reference/result-queue.rst`` for the
hand-off between the two sides.
"""

import array
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import enum
import functools
from importlib import resources
import json
import struct
import sys
from typing import Any
from typing import NamedTuple

import google_crc32c

CONTRACT: dict[str, Any] = json.loads(
    resources.files('octavia_xdp_provider.contracts')
    .joinpath('result-queue.json')
    .read_text(encoding='utf-8')
)

_CODES = {'u8': 'B', 'u16': 'H', 'u32': 'I', 'u64': 'Q'}


def _layout(table: dict[str, Any]) -> tuple[struct.Struct, list[str]]:
    """Build a packed little endian struct from a list of fields."""
    form = '<'
    names = []
    offset = 0
    for field in table['fields']:
        if field['offset'] != offset:
            raise ValueError(
                f'{field["name"]}: at {field["offset"]}, expected {offset}'
            )
        form += _CODES.get(field['type'], f'{field["size"]}s')
        names.append(field['name'])
        offset += field['size']
    layout = struct.Struct(form)
    if layout.size != table['size'] or offset != table['size']:
        raise ValueError(f'fields fill {offset} of {table["size"]} bytes')
    return layout, names


_HEADER, _HEADER_NAMES = _layout(CONTRACT['header'])
_RECORD, _RECORD_NAMES = _layout(CONTRACT['record'])
_CRC_OFFSET = next(
    field['offset']
    for field in CONTRACT['header']['fields']
    if field['name'] == 'crc32c'
)
_CRC_SIZE = 4

HEADER_SIZE = _HEADER.size
MAGIC: bytes = CONTRACT['constants']['magic'].encode('ascii')
VERSION: int = CONTRACT['constants']['version']
FLAG_VERIFIED: int = CONTRACT['constants']['flag_verified']
MAX_PENDING_DELTAS: int = CONTRACT['constants']['max_pending_deltas']


def _enum(name: str, table: dict[str, int]) -> Any:
    """Create an IntEnum from a table of the contract."""
    make: Any = enum.IntEnum
    return make(name, {member.upper(): number
                       for member, number in table.items()})


Kind = _enum('Kind', CONTRACT['kinds'])
State = _enum('State', CONTRACT['states'])
Reason = _enum('Reason', CONTRACT['reasons'])

# A record is read as words of 8 bytes. Some fields fill a word, and the others
# share a single one, the *verdict*. Files of many thousands of records are
# thus split into columns without an object for each record.
_WORD = 8
_WORDS, _REST = divmod(_RECORD.size, _WORD)


def _places() -> tuple[dict[str, int], dict[str, tuple[int, int]], int]:
    """Return field → word for fields that fill one, field → (shift, mask) for
    the others, and the index of the word that these share."""
    words = {}
    parts = {}
    shared = set()
    for field in CONTRACT['record']['fields']:
        word, byte = divmod(field['offset'], _WORD)
        if field['size'] == _WORD and not byte:
            words[field['name']] = word
        else:
            shared.add(word)
            parts[field['name']] = (8 * byte, (1 << 8 * field['size']) - 1)
    if _REST or len(shared) != 1:
        raise ValueError('records are not made of words')
    return words, parts, shared.pop()


_COLUMNS, _PARTS, _VERDICT = _places()
_STATE_SHIFT, _STATE_MASK = _PARTS['state']
_FLAGS_SHIFT, _FLAGS_MASK = _PARTS['flags']
_RESERVED = tuple(
    part for name, part in _PARTS.items() if name.startswith('reserved')
)
_STATES = frozenset(State)


def state_of(verdict: int) -> int:
    """Return the state in a verdict, the shared word of a record."""
    return verdict >> _STATE_SHIFT & _STATE_MASK


def is_verified(verdict: int) -> bool:
    """Return whether a probe of its boot confirms a verdict's state."""
    return bool(verdict >> _FLAGS_SHIFT & FLAG_VERIFIED)


class QueueFileError(Exception):
    """A file of the queue cannot be used.

    :ivar reason: one of ``error_reasons`` in the contract.
    """

    def __init__(self, reason: str, text: str = '') -> None:
        super().__init__(f'{reason}: {text}' if text else reason)
        self.reason = reason


class Record(NamedTuple):
    """The verdict on one check."""

    key: int
    sequence: int
    time_ns: int
    state: int
    reason: int
    flags: int
    detail: int


class Columns(NamedTuple):
    """The records of a file, column by column."""

    keys: 'array.array[int]'
    sequences: 'array.array[int]'
    times: 'array.array[int]'
    verdicts: 'array.array[int]'

    def record(self, index: int) -> Record:
        """Return one record."""
        verdict = self.verdicts[index]
        return Record(
            self.keys[index],
            self.sequences[index],
            self.times[index],
            *(
                verdict >> shift & mask
                for shift, mask in (
                    _PARTS[name] for name in Record._fields[3:]
                )
            ),
        )


@dataclasses.dataclass(frozen=True)
class QueueFile:
    """One decoded file."""

    kind: int
    boot: int
    first_sequence: int
    last_sequence: int
    columns: Columns
    stretch_percent: int = 0

    @functools.cached_property
    def records(self) -> Sequence[Record]:
        """The columns as a Record for each check."""
        return [self.columns.record(i) for i in range(len(self.columns.keys))]


def _checksum(data: bytes) -> int:
    crc = google_crc32c.value(data[:_CRC_OFFSET])
    crc = google_crc32c.extend(crc, bytes(_CRC_SIZE))
    return int(google_crc32c.extend(crc, data[_CRC_OFFSET + _CRC_SIZE :]))


def _check_envelope(data: bytes) -> dict[str, Any]:
    """Return the header, after checking length and checksum."""
    if len(data) < _HEADER.size:
        raise QueueFileError('torn', f'{len(data)} bytes')
    header = dict(zip(_HEADER_NAMES, _HEADER.unpack_from(data), strict=True))
    if header['magic'] != MAGIC:
        raise QueueFileError('magic', header['magic'].hex())
    if header['version'] != VERSION:
        raise QueueFileError('version', str(header['version']))
    length = header['payload_length']
    if (
        header['record_size'] != _RECORD.size
        or length != header['count'] * _RECORD.size
    ):
        raise QueueFileError(
            'length',
            f'{header["count"]} records of {header["record_size"]} bytes '
            f'in {length} bytes',
        )
    wanted = _HEADER.size + length
    if len(data) < wanted:
        raise QueueFileError('torn', f'{len(data)} of {wanted} bytes')
    if len(data) > wanted:
        raise QueueFileError('length', f'{len(data) - wanted} bytes more')
    checksum = _checksum(data)
    if header['crc32c'] != checksum:
        raise QueueFileError(
            'crc', f'{header["crc32c"]:08x} written, {checksum:08x} found'
        )
    return header


def _check_meaning(header: dict[str, Any], columns: Columns) -> None:
    """Refuse contents that a correct writer never produces."""
    if any(header['reserved']) or (
        header['stretch_percent'] and header['kind'] == Kind.DELTA
    ):
        raise QueueFileError('reserved', 'header')
    first, last = header['first_sequence'], header['last_sequence']
    sequences = columns.sequences
    if header['kind'] == Kind.DELTA:
        if (
            not sequences
            or first == 0
            or last - first + 1 != len(sequences)
            or sequences.tolist() != list(range(first, last + 1))
        ):
            raise QueueFileError(
                'sequence', f'{first} to {last}, {len(sequences)} records'
            )
    elif header['kind'] == Kind.SNAPSHOT:
        if first != 0 or max(sequences, default=0) > last:
            raise QueueFileError('sequence', f'{first} to {last}')
    else:
        raise QueueFileError('kind', str(header['kind']))


def _check_verdict(key: int, verdict: int) -> None:
    if key == 0 or state_of(verdict) not in _STATES:
        raise QueueFileError(
            'record', f'key {key:016x}, state {state_of(verdict)}'
        )
    if verdict >> _FLAGS_SHIFT & _FLAGS_MASK & ~FLAG_VERIFIED or any(
        verdict >> shift & mask for shift, mask in _RESERVED
    ):
        raise QueueFileError('reserved', f'key {key:016x}')


def _columns(data: bytes) -> Columns:
    words = array.array('Q', data[_HEADER.size :])
    if sys.byteorder == 'big':
        words.byteswap()
    columns = Columns(
        words[_COLUMNS['key'] :: _WORDS],
        words[_COLUMNS['sequence'] :: _WORDS],
        words[_COLUMNS['time_ns'] :: _WORDS],
        words[_VERDICT::_WORDS],
    )
    try:
        # There are few distinct verdicts.
        for verdict in set(columns.verdicts):
            _check_verdict(1, verdict)
        if 0 in columns.keys:
            raise QueueFileError('record')
    except QueueFileError:
        for key, verdict in zip(columns.keys, columns.verdicts, strict=True):
            _check_verdict(key, verdict)
        raise
    return columns


def decode(data: bytes) -> QueueFile:
    """Decode a whole file.

    :raises QueueFileError: the file is not valid.
    """
    header = _check_envelope(data)
    columns = _columns(data)
    _check_meaning(header, columns)
    return QueueFile(
        kind=header['kind'],
        boot=header['boot'],
        first_sequence=header['first_sequence'],
        last_sequence=header['last_sequence'],
        columns=columns,
        stretch_percent=header['stretch_percent'],
    )


def position(data: bytes) -> tuple[int, int]:
    """Return boot and last sequence of an unchecked header, or zeroes if it
    is not complete."""
    header = _header_of(data)
    return header['boot'], header['last_sequence']


def stretch(data: bytes) -> int:
    """Return the length of intervals in percent, of an unchecked header."""
    return int(_header_of(data)['stretch_percent'])


def _header_of(data: bytes) -> dict[str, Any]:
    if len(data) < HEADER_SIZE:
        return dict.fromkeys(_HEADER_NAMES, 0)
    return dict(zip(_HEADER_NAMES, _HEADER.unpack_from(data), strict=True))


def encode(
    kind: int,
    boot: int,
    first_sequence: int,
    last_sequence: int,
    records: Iterable[Record],
    stretch_percent: int = 0,
) -> bytes:
    """Encode a file; the health checker is the only writer in production."""
    parts = []
    for record in records:
        values = dict.fromkeys(_RECORD_NAMES, 0)
        values.update(record._asdict())
        parts.append(_RECORD.pack(*(values[n] for n in _RECORD_NAMES)))
    payload = b''.join(parts)
    header: dict[str, Any] = {
        'magic': MAGIC,
        'version': VERSION,
        'kind': kind,
        'boot': boot,
        'first_sequence': first_sequence,
        'last_sequence': last_sequence,
        'count': len(parts),
        'record_size': _RECORD.size,
        'payload_length': len(payload),
        'crc32c': 0,
        'stretch_percent': stretch_percent,
        'reserved': b'',
    }
    blank = _HEADER.pack(*(header[name] for name in _HEADER_NAMES)) + payload
    header['crc32c'] = _checksum(blank)
    return _HEADER.pack(*(header[name] for name in _HEADER_NAMES)) + payload


def delta_name(boot: int, first_sequence: int) -> str:
    """Return the name of a delta; names sort in the order of writing."""
    form: str = CONTRACT['names']['delta']
    return form.format(boot=boot, first_sequence=first_sequence)
