# SPDX-License-Identifier: Apache-2.0
"""Reads packets from pcap and pcapng files.

It implements the parts of draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng
that are needed for Ethernet and raw IP. scapy, which tests compare it with, is
too large for every node, and under the GPL.
"""

import struct
import typing

ETHERNET, RAW = 1, 101
_PCAP_MAGIC = (0xa1b2c3d4, 0xa1b23c4d)
_SECTION, _INTERFACE, _PACKET, _SIMPLE, _ENHANCED = (
    0x0a0d0d0a, 1, 2, 3, 6)
_BYTE_ORDER = 0x1a2b3c4d
_OUTBOUND = 2
# As in libpcap: a longer packet means that the file is broken.
_LENGTH_MAX = 1 << 18
_BLOCK_MAX = 1 << 24


class CaptureError(Exception):
    """The file is malformed or has an unknown format."""


class Captured(typing.NamedTuple):
    """``frame`` has its original length: ``missing`` bytes at its end were
    not captured and are zero. ``out``: the packet is outbound."""

    number: int
    frame: bytes
    missing: int = 0
    out: bool = False


Packets = typing.Iterator[Captured]


def read(file: typing.BinaryIO) -> Packets:
    """Iterate over the packets of a file opened in binary mode.

    :raises CaptureError: it cannot be read.
    """
    magic = file.read(4)
    if len(magic) < 4:
        raise CaptureError('the file is empty')
    for order in '<>':
        number, = struct.unpack(order + 'I', magic)
        if number in _PCAP_MAGIC:
            return _read_pcap(file, order)
    if magic == struct.pack('!I', _SECTION):
        return _read_pcapng(file)
    raise CaptureError('it is neither pcap nor pcapng')


def _exactly(file: typing.BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise CaptureError('the file is cut short')
    return data


def _frame(number: int, link: int, data: bytes, length: int,
           out: bool = False) -> Captured:
    if not len(data) <= length <= _LENGTH_MAX:
        raise CaptureError(f'packet {number} has {len(data)} of {length} '
                           'bytes')
    missing = length - len(data)
    if link == RAW:
        version = data[0] >> 4 if data else 0
        data = bytes(12) + (b'\x86\xdd' if version == 6 else b'\x08\0') + data
    elif link != ETHERNET:
        raise CaptureError(
            f'packet {number} has link type {link}: only Ethernet '
            f'({ETHERNET}) and raw IP ({RAW}) can be read')
    return Captured(number, data + bytes(missing), missing, out)


def _read_pcap(file: typing.BinaryIO, order: str) -> Packets:
    link = struct.unpack(order + 'HHiIII', _exactly(file, 20))[-1] & 0xffff
    number = 0
    while head := file.read(16):
        number += 1
        if len(head) < 16:
            raise CaptureError('the file is cut short')
        _seconds, _fraction, kept, length = struct.unpack(order + 'IIII',
                                                          head)
        if kept > _LENGTH_MAX:
            raise CaptureError(f'packet {number} has {kept} bytes')
        yield _frame(number, link, _exactly(file, kept), length)


def _blocks(file: typing.BinaryIO
            ) -> typing.Iterator[tuple[str, int, bytes]]:
    """Yield (byte order, type, body) of blocks; the first type was read."""
    order = '<'
    kind = struct.pack('!I', _SECTION)
    while kind:
        if len(kind) < 4:
            raise CaptureError('the file is cut short')
        head = _exactly(file, 4)
        body = b''
        if kind == struct.pack('!I', _SECTION):
            body = _exactly(file, 4)
            for order in '<>':
                if struct.unpack(order + 'I', body)[0] == _BYTE_ORDER:
                    break
            else:
                raise CaptureError('a section of no byte order')
        length, = struct.unpack(order + 'I', head)
        if length % 4 or not 12 + len(body) <= length <= _BLOCK_MAX:
            raise CaptureError(f'a block of {length} bytes')
        body += _exactly(file, length - 12 - len(body))
        if _exactly(file, 4) != head:
            raise CaptureError('a block whose lengths differ')
        yield order, struct.unpack(order + 'I', kind)[0], body
        kind = file.read(4)


def _is_outbound(order: str, options: bytes) -> bool:
    """Return whether a packet is outbound, by epb_flags (option 2)."""
    at = 0
    while at + 4 <= len(options):
        code, length = struct.unpack_from(order + 'HH', options, at)
        if code == 2 and length == 4 and at + 8 <= len(options):
            flags, = struct.unpack_from(order + 'I', options, at + 4)
            return bool(flags & 3 == _OUTBOUND)
        if not code:
            break
        at += 4 + (length + 3 & ~3)
    return False


def _read_pcapng(file: typing.BinaryIO) -> Packets:
    links: list[tuple[int, int]] = []
    number = 0
    for order, kind, body in _blocks(file):
        try:
            if kind == _SECTION:
                links = []
            elif kind == _INTERFACE:
                link, _reserved, limit = struct.unpack_from(
                    order + 'HHI', body)
                links.append((link, limit))
            elif kind == _ENHANCED:
                number += 1
                which, _high, _low, kept, length = struct.unpack_from(
                    order + 'IIIII', body)
                data = body[20:20 + kept]
                if len(data) < kept or which >= len(links):
                    raise CaptureError(f'packet {number} is broken')
                yield _frame(number, links[which][0], data, length,
                             _is_outbound(order, body[20 + (
                                 kept + 3 & ~3):]))
            elif kind == _SIMPLE:
                number += 1
                length, = struct.unpack_from(order + 'I', body)
                if not links:
                    raise CaptureError(f'packet {number} is broken')
                link, limit = links[0]
                kept = min(length, limit or length)
                yield _frame(number, link, body[4:4 + kept], length)
            elif kind == _PACKET:
                raise CaptureError('it has blocks of the obsolete type 2')
        except struct.error as error:
            raise CaptureError('a block that is too short') from error
