# SPDX-License-Identifier: Apache-2.0
"""Builds frames of packets that the user describes."""

import dataclasses
import ipaddress
import struct

from octavia_xdp_provider.ctl.frame import FRAGMENT
from octavia_xdp_provider.ctl.frame import ICMP
from octavia_xdp_provider.ctl.frame import ICMPV6
from octavia_xdp_provider.ctl.frame import SCTP
from octavia_xdp_provider.ctl.frame import TCP
from octavia_xdp_provider.ctl.frame import UDP

NAMES = {'tcp': TCP, 'udp': UDP, 'sctp': SCTP, 'icmp': ICMP}
IPV4_TYPE, IPV6_TYPE = 0x0800, 0x86dd
VLAN_TYPES = (0x8100, 0x88a8)
FRAGMENT_ID = 0x1234
SYN, ACK = 0x02, 0x10


class PacketError(ValueError):
    """The description of a packet is invalid."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Description of a packet. ``length``: of the IP packet; 0: the minimum.

    ``fragment``: None, 'first' or 'later'.
    """

    protocol: str
    source: str
    destination: str
    source_port: int = 0
    destination_port: int = 0
    syn: bool = False
    length: int = 0
    dscp: int = 0
    vlans: tuple[int, ...] = ()
    fragment: str | None = None
    may_fragment: bool = False
    payload: bytes = b''


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    data += bytes(len(data) % 2)
    total = sum(data[::2]) * 256 + sum(data[1::2])
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff


def _transport(wanted: Wanted, version: int) -> tuple[int, bytes]:
    ports = struct.pack('!HH', wanted.source_port, wanted.destination_port)
    if wanted.protocol == 'tcp':
        flags = SYN if wanted.syn else ACK
        return TCP, ports + struct.pack('!IIBBHHH', 0, 0, 5 << 4, flags,
                                        65535, 0, 0)
    if wanted.protocol == 'udp':
        return UDP, ports + struct.pack('!HH', 8 + len(wanted.payload), 0)
    if wanted.protocol == 'sctp':
        chunk = struct.pack('!BBH', 1 if wanted.syn else 0, 0, 20)
        return SCTP, ports + bytes(8) + chunk + bytes(16)
    kind = 8 if version == 4 else 128
    return (ICMP if version == 4 else ICMPV6,
            struct.pack('!BBHHH', kind, 0, 0, 1, 1))


def _seal(protocol: int, pseudo: bytes, segment: bytes) -> bytes:
    """Set the checksum. SCTP's CRC is left out: the program ignores it."""
    at = {TCP: 16, UDP: 6, ICMP: 2, ICMPV6: 2}.get(protocol)
    if at is None:
        return segment
    header = b'' if protocol == ICMP else pseudo
    value = checksum(header + segment)
    if protocol == UDP and not value:
        value = 0xffff
    return segment[:at] + struct.pack('!H', value) + segment[at + 2:]


def frame(wanted: Wanted) -> bytes:
    """Build the frame of a described packet.

    :raises PacketError: there is no such packet.
    """
    source = ipaddress.ip_address(wanted.source)
    destination = ipaddress.ip_address(wanted.destination)
    if source.version != destination.version:
        raise PacketError(f'{source} and {destination} are of two families')
    version = source.version
    protocol, segment = _transport(wanted, version)
    segment += wanted.payload
    header = (20 if version == 4 else 40) + (
        8 if version == 6 and wanted.fragment else 0)
    if wanted.length:
        if wanted.length < header + len(segment):
            raise PacketError(
                f'--length {wanted.length}: such a packet has at least '
                f'{header + len(segment)} bytes')
        segment += bytes(wanted.length - header - len(segment))
    if protocol == UDP:
        segment = segment[:4] + struct.pack('!H', len(segment)) + segment[6:]
    addresses = source.packed + destination.packed
    pseudo = addresses + struct.pack('!II', len(segment), protocol)
    segment = _seal(protocol, pseudo, segment)
    build = _ipv4 if version == 4 else _ipv6
    packet = build(wanted, protocol, addresses, segment)
    return _link(wanted, IPV4_TYPE if version == 4 else IPV6_TYPE) + packet


def _link(wanted: Wanted, kind: int) -> bytes:
    # Locally administered addresses, which the program ignores.
    link = bytes.fromhex('020000000001' '020000000002')
    for position, vlan in enumerate(wanted.vlans):
        inner = position + 1 == len(wanted.vlans)
        link += struct.pack('!HH', VLAN_TYPES[not inner], vlan)
    return link + struct.pack('!H', kind)


def _ipv4(wanted: Wanted, protocol: int, addresses: bytes, segment: bytes
          ) -> bytes:
    flags = {None: 0, 'first': 0x2000, 'later': 185}[wanted.fragment]
    if not wanted.may_fragment and not wanted.fragment:
        flags |= 0x4000
    total = 20 + len(segment)
    if total > 65535:
        raise PacketError(f'no IPv4 packet has {total} bytes')
    header = struct.pack('!BBHHHBBH', 0x45, wanted.dscp << 2, total,
                         FRAGMENT_ID, flags, 64, protocol, 0)
    header += addresses
    return header[:10] + struct.pack('!H', checksum(header)) + (
        header[12:] + segment)


def _ipv6(wanted: Wanted, protocol: int, addresses: bytes, segment: bytes
          ) -> bytes:
    extension = b''
    if wanted.fragment:
        where = 1 if wanted.fragment == 'first' else 185 << 3
        extension = struct.pack('!BBHI', protocol, 0, where, FRAGMENT_ID)
        protocol = FRAGMENT
    length = len(extension) + len(segment)
    if length > 65535:
        raise PacketError(f'no IPv6 packet has {length + 40} bytes')
    return struct.pack('!IHBB', 6 << 28 | wanted.dscp << 22, length,
                       protocol, 64) + (
                           addresses + extension + segment)
