# SPDX-License-Identifier: Apache-2.0
"""Reader of the result queue: what the health checker tells the node.

The format has one definition, ``contracts/result-queue.json``. The layouts
used here are built from that document when this module is imported, so this
file holds no offset and no size. See ``doc/source/contributor/
result-queue.rst`` for the hand-off between the two sides.
"""

from collections.abc import Iterable
from collections.abc import Sequence
import contextlib
import dataclasses
import enum
from importlib import resources
import json
import os
import pathlib
import re
import struct
from typing import Any
from typing import NamedTuple

import google_crc32c

CONTRACT: dict[str, Any] = json.loads(
    resources.files('octavia_xdp_provider.common')
    .joinpath('contracts', 'result-queue.json')
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

MAGIC: bytes = CONTRACT['constants']['magic'].encode('ascii')
VERSION: int = CONTRACT['constants']['version']
FLAG_VERIFIED: int = CONTRACT['constants']['flag_verified']
MAX_PENDING_DELTAS: int = CONTRACT['constants']['max_pending_deltas']
SNAPSHOT_NAME: str = CONTRACT['names']['snapshot']
REJECTED_NAME: str = CONTRACT['names']['rejected']
TEMPORARY_PREFIX: str = CONTRACT['names']['temporary_prefix']
_DELTA_NAME = re.compile(CONTRACT['names']['delta_pattern'])

Kind = enum.IntEnum(
    'Kind', {k.upper(): v for k, v in CONTRACT['kinds'].items()}
)
State = enum.IntEnum(
    'State', {k.upper(): v for k, v in CONTRACT['states'].items()}
)
Reason = enum.IntEnum(
    'Reason', {k.upper(): v for k, v in CONTRACT['reasons'].items()}
)

# Where the wanted values stand in a record, as found in the contract.
_AT = {name: _RECORD_NAMES.index(name) for name in _RECORD_NAMES}
_KEY, _SEQUENCE, _TIME = _AT['key'], _AT['sequence'], _AT['time_ns']
_STATE, _REASON, _FLAGS = _AT['state'], _AT['reason'], _AT['flags']
_DETAIL = _AT['detail']
_PADS = tuple(i for n, i in _AT.items() if n.startswith('pad'))
_STATES = frozenset(State)


class QueueFileError(Exception):
    """A file of the queue that can't be used.

    :ivar reason: one of the words listed under ``error_reasons`` in the
        contract.
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

    @property
    def verified(self) -> bool:
        """Whether a probe of this boot agrees with the state."""
        return bool(self.flags & FLAG_VERIFIED)

    @property
    def key_text(self) -> str:
        """The key as the checks file spells it."""
        return f'{self.key:016x}'


@dataclasses.dataclass(frozen=True)
class QueueFile:
    """One decoded file."""

    kind: int
    boot: int
    first_sequence: int
    last_sequence: int
    records: Sequence[Record]


def _checksum(data: bytes) -> int:
    crc = google_crc32c.value(data[:_CRC_OFFSET])
    crc = google_crc32c.extend(crc, bytes(_CRC_SIZE))
    return google_crc32c.extend(crc, data[_CRC_OFFSET + _CRC_SIZE :])


def _check_envelope(data: bytes) -> dict[str, Any]:
    """Return the header of data whose length and checksum are right."""
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
    found = _checksum(data)
    if header['crc32c'] != found:
        raise QueueFileError(
            'crc', f'{header["crc32c"]:08x} written, {found:08x} found'
        )
    return header


def _check_meaning(header: dict[str, Any], records: list[Record]) -> None:
    """Refuse what a correct writer would never have sealed."""
    if any(header['reserved']):
        raise QueueFileError('reserved', 'header')
    first, last = header['first_sequence'], header['last_sequence']
    if header['kind'] == Kind.DELTA:
        if (
            not records
            or first == 0
            or last - first + 1 != len(records)
            or any(r.sequence != first + i for i, r in enumerate(records))
        ):
            raise QueueFileError(
                'sequence', f'{first} to {last}, {len(records)} records'
            )
    elif header['kind'] == Kind.SNAPSHOT:
        if first != 0 or any(r.sequence > last for r in records):
            raise QueueFileError('sequence', f'{first} to {last}')
    else:
        raise QueueFileError('kind', str(header['kind']))


def decode(data: bytes) -> QueueFile:
    """Decode a whole file.

    :raises QueueFileError: if anything about it is wrong.
    """
    header = _check_envelope(data)
    records = []
    for raw in _RECORD.iter_unpack(memoryview(data)[_HEADER.size :]):
        if raw[_KEY] == 0 or raw[_STATE] not in _STATES:
            raise QueueFileError(
                'record', f'key {raw[_KEY]:016x}, state {raw[_STATE]}'
            )
        if raw[_FLAGS] & ~FLAG_VERIFIED or any(raw[pad] for pad in _PADS):
            raise QueueFileError('reserved', f'key {raw[_KEY]:016x}')
        records.append(
            Record(
                raw[_KEY],
                raw[_SEQUENCE],
                raw[_TIME],
                raw[_STATE],
                raw[_REASON],
                raw[_FLAGS],
                raw[_DETAIL],
            )
        )
    _check_meaning(header, records)
    return QueueFile(
        kind=header['kind'],
        boot=header['boot'],
        first_sequence=header['first_sequence'],
        last_sequence=header['last_sequence'],
        records=records,
    )


def encode(
    kind: int,
    boot: int,
    first_sequence: int,
    last_sequence: int,
    records: Iterable[Record],
) -> bytes:
    """Encode a file; the health checker is the only writer in production."""
    parts = []
    for record in records:
        values = dict.fromkeys(_RECORD_NAMES, 0)
        values.update(record._asdict())
        parts.append(_RECORD.pack(*(values[n] for n in _RECORD_NAMES)))
    payload = b''.join(parts)
    values = {
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
        'reserved': b'',
    }
    blank = _HEADER.pack(*(values[name] for name in _HEADER_NAMES)) + payload
    values['crc32c'] = _checksum(blank)
    return _HEADER.pack(*(values[name] for name in _HEADER_NAMES)) + payload


class QueueDirectory:
    """The directory through which the files travel."""

    def __init__(
        self, path: str | os.PathLike[str], keep_rejected: int = 100
    ) -> None:
        self.path = pathlib.Path(path)
        self._keep_rejected = keep_rejected

    @property
    def snapshot_path(self) -> pathlib.Path:
        """Where the snapshot is, if there is one."""
        return self.path / SNAPSHOT_NAME

    def pending(self) -> list[pathlib.Path]:
        """Return the deltas that wait, in the order to apply them."""
        return sorted(p for p in self._entries() if _is_delta(p))

    def foreign(self) -> list[pathlib.Path]:
        """Return files that are none of the queue's, for `reject`."""
        return sorted(
            p
            for p in self._entries()
            if p.name not in (SNAPSHOT_NAME, REJECTED_NAME)
            and not p.name.startswith(TEMPORARY_PREFIX)
            and not _is_delta(p)
        )

    def read(self, path: pathlib.Path) -> QueueFile:
        """Decode one delta and hold it against its name.

        :raises QueueFileError: if it can't be used.
        :raises FileNotFoundError: if somebody else has removed it.
        """
        found = decode(path.read_bytes())
        if found.kind != Kind.DELTA:
            raise QueueFileError('kind', f'kind {found.kind} as a delta')
        if path.name != delta_name(found.boot, found.first_sequence):
            raise QueueFileError('name', path.name)
        return found

    def snapshot(self) -> QueueFile | None:
        """Decode the snapshot; None if there is none.

        :raises QueueFileError: if it can't be used.
        """
        try:
            data = self.snapshot_path.read_bytes()
        except FileNotFoundError:
            return None
        found = decode(data)
        if found.kind != Kind.SNAPSHOT:
            raise QueueFileError('kind', f'kind {found.kind} as a snapshot')
        return found

    def remove(self, path: pathlib.Path) -> None:
        """Remove a delta that has been applied."""
        path.unlink(missing_ok=True)

    def reject(self, path: pathlib.Path, reason: str) -> pathlib.Path | None:
        """Set a file aside with the reason in a text file beside it.

        Only the newest files are kept. Returns the new place, or None if
        the file had gone.
        """
        rejected = self.path / REJECTED_NAME
        rejected.mkdir(mode=0o750, exist_ok=True)
        place = _free_name(rejected, path.name)
        try:
            os.rename(path, place)
        except FileNotFoundError:
            return None
        # From now on the file is out of the way; the rest is for people.
        with contextlib.suppress(OSError):
            os.utime(place)
            place.with_name(place.name + '.reason').write_text(
                reason + '\n', encoding='utf-8'
            )
            self._prune(rejected)
        return place

    def _entries(self) -> list[pathlib.Path]:
        try:
            return list(self.path.iterdir())
        except FileNotFoundError:
            return []

    def _prune(self, rejected: pathlib.Path) -> None:
        files = [p for p in rejected.iterdir() if p.suffix != '.reason']
        files.sort(key=lambda p: (p.stat().st_mtime_ns, p.name))
        for old in files[: max(0, len(files) - self._keep_rejected)]:
            if not old.is_dir():
                old.unlink(missing_ok=True)
            old.with_name(old.name + '.reason').unlink(missing_ok=True)


def delta_name(boot: int, first_sequence: int) -> str:
    """Return the name of a delta; names sort in the order of writing."""
    return CONTRACT['names']['delta'].format(
        boot=boot, first_sequence=first_sequence
    )


def _is_delta(path: pathlib.Path) -> bool:
    return _DELTA_NAME.fullmatch(path.name) is not None


def _free_name(folder: pathlib.Path, name: str) -> pathlib.Path:
    place = folder / name
    number = 0
    while os.path.lexists(place):
        number += 1
        place = folder / f'{name}.{number}'
    return place
