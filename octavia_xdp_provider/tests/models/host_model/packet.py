# SPDX-License-Identifier: Apache-2.0
"""Parses IP packets and computes checksums."""

import dataclasses
import struct

TCP, UDP, SCTP, ICMP, ICMPV6 = 6, 17, 132, 1, 58
HEADERS = {TCP: 20, UDP: 8, SCTP: 12}
CHECKSUMS = {TCP: 16, UDP: 6, ICMPV6: 2}
EXTENSIONS = {0, 43, 60}
FRAGMENT = 44
EXTENSIONS_MAX = 6
ECHOES = {4: {8: 'request', 0: 'reply'}, 6: {128: 'request', 129: 'reply'}}
ERRORS = {4: {3, 4, 5, 11, 12}, 6: {1, 2, 3, 4}}
FIN, SYN, RST, ACK = 1, 2, 4, 16
INIT = 1  # chunk type of SCTP


class Malformed(Exception):
    """Headers are cut short or contradict each other."""


@dataclasses.dataclass
class Packet:
    """A parsed packet; offsets count from the start of the IP header."""

    version: int
    source: bytes
    destination: bytes
    protocol: int
    offset: int  # of the transport header
    length: int  # as its IP header states
    later: bool = False
    fragment: bool = False
    id: bytes = b''
    source_port: int = 0
    destination_port: int = 0
    has_ports: bool = False
    flags: int = 0  # TCP flags
    init: bool = False  # the first SCTP chunk is INIT
    error: bool = False
    echo: str = ''  # request or reply; ports are identifier and sequence

    @property
    def opens(self) -> bool:
        return self.init or self.flags & (SYN | ACK | RST) == SYN

    @property
    def closes(self) -> bool:
        return bool(self.flags & (FIN | RST))


def total(data: bytes) -> int:
    """Return the ones' complement sum of 16-bit words."""
    if len(data) % 2:
        data += b'\0'
    value = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while value >> 16:
        value = (value & 0xffff) + (value >> 16)
    return value


def _headers(data: bytes) -> Packet:
    """Parse the IP headers, without the transport header."""
    if not data:
        raise Malformed
    version = data[0] >> 4
    if version == 4:
        if len(data) < 20 or data[0] & 15 < 5:
            raise Malformed
        fragment, = struct.unpack_from('!H', data, 6)
        return Packet(4, data[12:16], data[16:20], data[9],
                      (data[0] & 15) * 4,
                      struct.unpack_from('!H', data, 2)[0],
                      bool(fragment & 0x1fff), bool(fragment & 0x3fff),
                      data[4:6])
    if version != 6 or len(data) < 40:
        raise Malformed
    packet = Packet(6, data[8:24], data[24:40], data[6], 40,
                    40 + struct.unpack_from('!H', data, 4)[0])
    for _ in range(EXTENSIONS_MAX + 1):
        if packet.protocol not in EXTENSIONS | {FRAGMENT}:
            return packet
        if len(data) < packet.offset + 4:
            raise Malformed
        following, size, word = struct.unpack_from('!BBH', data,
                                                   packet.offset)
        if packet.protocol == FRAGMENT:
            if word & 0xfff9:
                packet.fragment = True
                packet.id = data[packet.offset + 4:packet.offset + 8]
                if len(packet.id) < 4:
                    raise Malformed
            packet.later = bool(word & 0xfff8)
            packet.offset += 8
        else:
            packet.offset += (size + 1) * 8
        packet.protocol = following
        if packet.later:
            return packet
    raise Malformed


def parse(data: bytes) -> Packet:
    """:raises Malformed: headers are cut short or contradictory."""
    packet = _headers(data)
    if packet.length > len(data) or packet.offset > packet.length:
        raise Malformed
    if packet.later:
        return packet
    room = packet.length - packet.offset
    at = packet.offset
    if packet.protocol in HEADERS:
        if room < HEADERS[packet.protocol]:
            raise Malformed
        packet.source_port, packet.destination_port = struct.unpack_from(
            '!HH', data, at)
        packet.has_ports = True
        if packet.protocol == TCP:
            packet.flags = data[at + 13]
        elif packet.protocol == SCTP:
            packet.init = room > 12 and data[at + 12] == INIT
    elif room >= 8 and packet.protocol == (ICMP if packet.version == 4
                                           else ICMPV6):
        packet.error = data[at] in ERRORS[packet.version]
        if not packet.fragment:
            packet.echo = ECHOES[packet.version].get(data[at], '')
            identifier, sequence = struct.unpack_from('!HH', data, at + 4)
            if packet.echo == 'request':
                packet.source_port = identifier
                packet.destination_port = sequence
            elif packet.echo == 'reply':
                packet.source_port = sequence
                packet.destination_port = identifier
    return packet


def parse_quote(data: bytes, packet: Packet) -> tuple[int, Packet] | None:
    """Return the offset of an ICMP error's quote, and the parsed quote."""
    start = packet.offset + 8
    try:
        quote = _headers(data[start:])
    except Malformed:
        return None
    at = start + quote.offset
    if (quote.version != packet.version or quote.later or
            quote.protocol not in HEADERS or len(data) < at + 4):
        return None
    quote.source_port, quote.destination_port = struct.unpack_from(
        '!HH', data, at)
    return start, quote


def _pseudo(packet: Packet, length: int) -> bytes:
    if packet.version == 4:
        return packet.source + packet.destination + struct.pack(
            '!BBH', 0, packet.protocol, length)
    return packet.source + packet.destination + struct.pack(
        '!IHBB', length, 0, 0, packet.protocol)


def transport_sum(data: bytes, packet: Packet) -> int:
    """Return the sum of a transport; 0xffff if its checksum is correct."""
    body = data[packet.offset:packet.length]
    if packet.protocol == ICMP and packet.version == 4:
        return total(body)
    return total(_pseudo(packet, len(body)) + body)


def changed_sum(check: int, before: int, after: int) -> int:
    """Return the updated checksum; a wrong one stays wrong (RFC 1624)."""
    value = (~check & 0xffff) + (~before & 0xffff) + after
    while value >> 16:
        value = (value & 0xffff) + (value >> 16)
    return ~value & 0xffff
