# SPDX-License-Identifier: Apache-2.0
"""Writes pcapng files (draft-ietf-opsawg-pcapng), little-endian.

Own code because of the options epb_packetid, which links copies of a packet,
and epb_verdict, the program's decision.
"""

import struct
from typing import BinaryIO
from typing import NamedTuple

_SECTION, _INTERFACE, _ENHANCED = 0x0a0d0d0a, 1, 6
_BYTE_ORDER = 0x1a2b3c4d
_ETHERNET = 1
# Options: of any block, of sections, of interfaces, of packets.
_COMMENT = 1
_APPLICATION = 4
_NAME, _RESOLUTION = 2, 9
_FLAGS, _PACKET_ID, _QUEUE, _VERDICT = 2, 5, 6, 7
_INBOUND, _OUTBOUND = 1, 2
_NANOSECONDS = 9  # 10^-9 seconds
_VERDICT_XDP = 2  # followed by an XDP action of 64 bits


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _options(options: list[tuple[int, bytes]]) -> bytes:
    """Encode pairs (code, value), with opt_endofopt at the end."""
    out = b''.join(struct.pack('<HH', code, len(value)) + _pad(value)
                   for code, value in options)
    return out + bytes(4) if out else b''


def _block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return struct.pack('<II', kind, length) + body + struct.pack('<I',
                                                                 length)


class Marks(NamedTuple):
    """What a file says of a packet. ``out``: whether it is outbound.
    ``number``: the same for all blocks of one packet. ``action``: number of
    the XDP action."""

    out: bool = False
    number: int | None = None
    queue: int | None = None
    action: int | None = None
    comment: str | None = None


class Writer:
    """Writes one section. Interfaces may be added at any time."""

    def __init__(self, file: BinaryIO, application: str) -> None:
        self._file = file
        self._interfaces = 0
        file.write(_block(_SECTION, struct.pack(
            '<IHHq', _BYTE_ORDER, 1, 0, -1) + _options(
                [(_APPLICATION, application.encode())])))

    def interface(self, name: str, snaplen: int) -> int:
        """Add an interface. Returns its number."""
        self._file.write(_block(_INTERFACE, struct.pack(
            '<HHI', _ETHERNET, 0, snaplen) + _options(
                [(_NAME, name.encode()),
                 (_RESOLUTION, bytes([_NANOSECONDS]))])))
        self._interfaces += 1
        return self._interfaces - 1

    def packet(self, interface: int, time: int, data: bytes, length: int,
               marks: Marks) -> None:
        """Write a packet.

        :param time: nanoseconds since 1970, UTC.
        :param length: of the whole frame; ``data`` may be shorter.
        """
        options = [(_FLAGS, struct.pack(
            '<I', _OUTBOUND if marks.out else _INBOUND))]
        if marks.number is not None:
            options.append((_PACKET_ID, struct.pack('<Q', marks.number)))
        if marks.queue is not None:
            options.append((_QUEUE, struct.pack('<I', marks.queue)))
        if marks.action is not None:
            options.append((_VERDICT, struct.pack('<BQ', _VERDICT_XDP,
                                                  marks.action)))
        if marks.comment:
            options.append((_COMMENT, marks.comment.encode()))
        self._file.write(_block(_ENHANCED, struct.pack(
            '<IIIII', interface, time >> 32, time & 0xffffffff, len(data),
            length) + _pad(data) + _options(options)))
