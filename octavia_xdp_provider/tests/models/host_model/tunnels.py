# SPDX-License-Identifier: Apache-2.0
"""Parses tunnel packets and builds those that are handed on."""

import struct
import typing

from octavia_xdp_provider.tests.models.host_model import packet as packets

GENEVE = 6081
ROUTING = 43
TYPES = {4: b'\x08\x00', 6: b'\x86\xdd'}
VERSIONS = {text: version for version, text in TYPES.items()}
PROTOCOLS = {4: 4, 41: 6}
HEADER = {4: 20, 6: 40}
ADDRESS = {4: 4, 6: 16}
# Option class for experiments, type 1, not critical.
OPTION = b'\xff\x4f\x01'
SEGMENTS = b'\x02\x04\x01\0\0\0\0'


class Tunnel(typing.NamedTuple):
    """``version``, ``source``, ``tos``: of the outer header; ``inner``: IP
    version of the packet at the start of ``data``; ``right``: lengths and the
    IPv4 checksum are consistent; ``alternative``: (address, key) or None;
    ``own``: prefix of the hypervisor's own addresses."""

    version: int
    source: bytes
    tos: int
    key: int
    inner: int
    data: bytes
    right: bool
    alternative: tuple[bytes, int] | None
    own: bytes


def read(frame: bytes, local: dict[int, bytes], sid: bytes) -> Tunnel | None:
    """Return None for anything but a tunnel packet to this hypervisor."""
    version = VERSIONS.get(frame[12:14])
    data = frame[14:]
    if version == 4:
        if len(data) < 20 or data[0] != 0x45 or struct.unpack_from(
                '!H', data, 6)[0] & 0x3fff:
            return None
        source, destination = data[12:16], data[16:20]
        protocol, tos = data[9], data[1]
        length, = struct.unpack_from('!H', data, 2)
        right = packets.total(data[:20]) == 0xffff
    elif version == 6 and len(data) >= 40 and data[0] >> 4 == 6:
        source, destination = data[8:24], data[24:40]
        protocol = data[6]
        tos = (data[0] & 15) << 4 | data[1] >> 4
        length = 40 + struct.unpack_from('!H', data, 4)[0]
        right = True
    else:
        return None
    size = HEADER[version]
    if protocol == packets.UDP:
        own = local[version]
        parsed = _geneve(data, version) if destination == own else None
        right = right and len(data) >= size + 8 and struct.unpack_from(
            '!H', data, size + 4)[0] == length - size
    else:
        own = sid
        parsed = (_segments(data, protocol, destination)
                  if version == 6 and destination[:12] == sid else None)
    if parsed is None:
        return None
    size, key, inner, alternative = parsed
    return Tunnel(version, source, tos, key, inner, data[size:],
                  right and size < length <= len(data) and
                  _fits(data, size, length, inner), alternative, own)


def _geneve(data: bytes, version: int):
    """Return (bytes of headers, key, inner version, alternative)."""
    size = HEADER[version]
    if len(data) < size + 16:
        return None
    port, check, flags, kind = struct.unpack_from('!2xH2xHH2s', data, size)
    if port != GENEVE or check or kind not in VERSIONS:
        return None
    key = int.from_bytes(data[size + 12:size + 15], 'big')
    size += 16
    if not flags:
        return size, key, VERSIONS[kind], None
    address = ADDRESS[version]
    words = 2 + address // 4
    if (flags != words << 8 or len(data) < size + 4 * words or
            data[size:size + 4] != OPTION + bytes((words - 1,))):
        return None
    other = int.from_bytes(data[size + 4:size + 7], 'big')
    return (size + 4 * words, key, VERSIONS[kind],
            (data[size + 8:size + 8 + address], other))


def _segments(data: bytes, protocol: int, destination: bytes):
    key = int.from_bytes(destination[12:], 'big')
    if protocol in PROTOCOLS:
        return 40, key, PROTOCOLS[protocol], None
    if (protocol != ROUTING or len(data) < 64 or
            data[41:48] != SEGMENTS or data[40] not in PROTOCOLS):
        return None
    address = data[48:64]
    return (64, key, PROTOCOLS[data[40]],
            (address, int.from_bytes(address[12:], 'big')))


def _fits(data: bytes, size: int, length: int, inner: int) -> bool:
    rest = data[size:]
    if inner == 4:
        return (len(rest) >= 20 and rest[0] >> 4 == 4 and
                rest[0] & 15 >= 5 and
                size + struct.unpack_from('!H', rest, 2)[0] == length)
    return (len(rest) >= 40 and rest[0] >> 4 == 6 and
            size + 40 + struct.unpack_from('!H', rest, 4)[0] == length)


def handed_on(frame: bytes, tunnel: Tunnel) -> bytes:
    """Return the packet as it is sent to its alternative."""
    assert tunnel.alternative is not None
    address, key = tunnel.alternative
    header = bytearray(frame[14:14 + HEADER[tunnel.version]])
    if tunnel.version == 4:
        source = header[16:20]
        header[2:4] = (int.from_bytes(header[2:4], 'big') - 12).to_bytes(
            2, 'big')
        header[8] = 64
        header[10:12] = bytes(2)
        header[12:20] = source + address
        header[10:12] = (~packets.total(bytes(header)) & 0xffff).to_bytes(
            2, 'big')
    else:
        header[4:6] = (int.from_bytes(header[4:6], 'big') - 24).to_bytes(
            2, 'big')
        header[7] = 64
        header[8:40] = header[24:40] + address
    shim = b''
    if header[6] == ROUTING and tunnel.version == 6:
        header[6] = 4 if tunnel.inner == 4 else 41
    else:
        at = 14 + HEADER[tunnel.version]
        length = int.from_bytes(frame[at + 4:at + 6], 'big') - (
            12 if tunnel.version == 4 else 24)
        shim = (frame[at:at + 4] + length.to_bytes(2, 'big') + bytes(4) +
                frame[at + 10:at + 12] + key.to_bytes(3, 'big') +
                frame[at + 23:at + 24])  # the option's reserved byte
    return frame[:14] + bytes(header) + shim + tunnel.data
