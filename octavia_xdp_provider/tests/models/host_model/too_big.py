# SPDX-License-Identifier: Apache-2.0
"""ICMP errors to a VM about answers that exceed the MTU."""

import ipaddress
import struct

from octavia_xdp_provider.tests.models.host_model import packet as packets

LEAST = {4: 576, 6: 1280}
QUOTED = {4: 520, 6: 1232}
TTL, CLASS = 64, 0xc0
DONT_FRAGMENT, MORE_FRAGMENTS = 0x4000, 0x2000


def answer(frame: bytes, packet: packets.Packet, mtu: int) -> bytes | None:
    """Return the ICMP error for the VM; None: none may be sent."""
    data = frame[14:]
    if packet.error or packet.later or not _is_clients(packet.destination):
        return None
    if packet.version == 4:
        flags, = struct.unpack_from('!H', data, 6)
        if (mtu < LEAST[4] or not flags & DONT_FRAGMENT or
                flags & MORE_FRAGMENTS):
            return None
    quote = data[:min(packet.length, QUOTED[packet.version])]
    make = _v4 if packet.version == 4 else _v6
    return frame[6:12] + frame[:6] + frame[12:14] + make(packet, quote, mtu)


def _is_clients(address: bytes) -> bool:
    """Whether a client can have the address."""
    parsed = ipaddress.ip_address(address)
    if parsed.version == 4:
        return not (address[0] in (0, 127) or address[0] >= 224)
    return not (parsed.is_unspecified or parsed.is_loopback or
                parsed.is_multicast or parsed.ipv4_mapped)


def _checked(data: bytes, at: int, covered: bytes) -> bytes:
    return data[:at] + struct.pack(
        '!H', ~packets.total(covered) & 0xffff) + data[at + 2:]


def _v4(packet: packets.Packet, quote: bytes, mtu: int) -> bytes:
    icmp = struct.pack('!BBHI', 3, 4, 0, mtu) + quote
    icmp = _checked(icmp, 2, icmp)
    header = struct.pack('!BBHIBBH', 0x45, CLASS, 20 + len(icmp), 0, TTL,
                         packets.ICMP, 0) + packet.destination + packet.source
    return _checked(header, 10, header) + icmp


def _v6(packet: packets.Packet, quote: bytes, mtu: int) -> bytes:
    icmp = struct.pack('!BBHI', 2, 0, 0, max(mtu, LEAST[6])) + quote
    ends = packet.destination + packet.source
    icmp = _checked(icmp, 2, ends + struct.pack(
        '!II', len(icmp), packets.ICMPV6) + icmp)
    return struct.pack('!IHBB', 6 << 28 | CLASS << 20, len(icmp),
                       packets.ICMPV6, TTL) + ends + icmp
