# SPDX-License-Identifier: Apache-2.0
"""Rewrites one end of packets; checksums follow from sums of whole messages.

A checksum that was wrong stays wrong by as much.
"""

import struct

from octavia_xdp_provider.tests.models.host_model import packet as packets

MSS, END, NOP = 2, 0, 1


def _addresses(version: int) -> tuple[int, int, int]:
    """Return offsets of source and destination, and their length."""
    return (12, 16, 4) if version == 4 else (8, 24, 16)


def _put(data: bytes, at: int, what: bytes) -> bytes:
    return data[:at] + what + data[at + len(what):]


def _without(data: bytes, at: int) -> bytes:
    return _put(data, at, b'\0\0')


def _corrected(check: int, before: bytes, after: bytes, udp: bool) -> int:
    if udp and not check:
        return 0
    check = packets.changed_sum(check, packets.total(before),
                                packets.total(after))
    return 0xffff if udp and not check else check


def header(data: bytes, version: int, change: dict[int, bytes]) -> bytes:
    """Change bytes of the IP header and update its checksum."""
    before = data
    for at, what in change.items():
        data = _put(data, at, what)
    if version == 6:
        return data
    size = (data[0] & 15) * 4
    check, = struct.unpack_from('!H', before, 10)
    return _put(data, 10, struct.pack('!H', _corrected(
        check, _without(before[:size], 10), _without(data[:size], 10),
        False)))


def transport(data: bytes, packet: packets.Packet, after: packets.Packet,
              change: dict[int, bytes]) -> bytes:
    """Change bytes of the transport, by offset in the packet, and update its
    checksum.

    :param after: the packet with its new addresses.
    """
    changed = data
    for at, what in change.items():
        changed = _put(changed, at, what)
    protocol = packet.protocol
    place = packets.CHECKSUMS.get(protocol)
    if protocol == packets.ICMP and packet.version == 4:
        place = 2
    elif protocol == packets.ICMPV6 and packet.version == 4:
        place = None
    if place is None or packet.later:
        return changed
    at = packet.offset + place
    check, = struct.unpack_from('!H', data, at)
    return _put(changed, at, struct.pack('!H', _corrected(
        check, _covered(_without(data, at), packet),
        _covered(_without(changed, at), after), protocol == packets.UDP)))


def _covered(data: bytes, packet: packets.Packet) -> bytes:
    body = data[packet.offset:packet.length]
    if packet.protocol == packets.ICMP and packet.version == 4:
        return body
    # Without the length, which a first fragment does not tell; it cancels.
    return packet.source + packet.destination + body


def end(data: bytes, packet: packets.Packet, inbound: bool, address: bytes,
        port: int) -> bytes:
    """Replace the destination of inbound packets, the source of others."""
    source, destination, _ = _addresses(packet.version)
    after = packets.Packet(**{**vars(packet), (
        'destination' if inbound else 'source'): address})
    change = {}
    if packet.has_ports:
        change[packet.offset + (2 if inbound else 0)] = struct.pack('!H', port)
    data = transport(data, packet, after, change)
    return header(data, packet.version,
                  {destination if inbound else source: address})


def quoted_end(data: bytes, packet: packets.Packet, inbound: bool,
               address: bytes, port: int) -> bytes:
    """Replace the other end in the quote of an ICMP error, and update the
    error's checksum. The checksum of the quoted transport stays."""
    start, quote = packets.parse_quote(data, packet)
    source, destination, _ = _addresses(packet.version)
    at = start + quote.offset + (0 if inbound else 2)
    inner = header(data[start:], packet.version,
                   {source if inbound else destination: address})
    changed = _put(data[:start] + inner, at, struct.pack('!H', port))
    return transport(data, packet, packet, {
        packet.offset + 8: changed[packet.offset + 8:]})


def clamp(data: bytes, packet: packets.Packet, limit: int) -> bytes:
    """Lower the MSS of a SYN to at most ``limit``; 0: no limit."""
    at = packet.offset + 20
    stop = packet.offset + (data[packet.offset + 12] >> 4) * 4
    while limit and at + 4 <= stop and at + 2 <= len(data):
        kind, size = data[at], data[at + 1]
        if kind == END:
            break
        if kind == NOP:
            at += 1
            continue
        if kind == MSS and size == 4:
            if at + 4 > len(data) or struct.unpack_from(
                    '!H', data, at + 2)[0] <= limit:
                break
            return transport(data, packet, packet, {
                at + 2: struct.pack('!H', limit)})
        if size < 2:
            break
        at += size
    return data


def ecn(data: bytes, version: int, value: int) -> bytes:
    if version == 4:
        return header(data, 4, {1: bytes([data[1] & 0xfc | value])})
    return _put(data, 1, bytes([data[1] & 0xcf | value << 4]))
