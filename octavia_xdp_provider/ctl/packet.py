# SPDX-License-Identifier: Apache-2.0
"""Frames of packets that somebody asks about, and frames taken apart.

Taking apart follows the contract of the forwarding program (forwarding.rst,
"Parsing") but is an implementation of its own: it is compared with what the
program does.
"""

import dataclasses
import ipaddress
import struct

TCP, UDP, SCTP, ICMP, ICMPV6 = 6, 17, 132, 1, 58
NAMES = {'tcp': TCP, 'udp': UDP, 'sctp': SCTP, 'icmp': ICMP}
TRANSPORT_LENGTH = {TCP: 20, UDP: 8, SCTP: 12}
IPV4_TYPE, IPV6_TYPE = 0x0800, 0x86dd
VLAN_TYPES = (0x8100, 0x88a8)
HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION = 0, 43, 44, 60
EXTENSIONS = (HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION)
EXTENSIONS_MAX = 6
FRAGMENT_ID = 0x1234
SYN, ACK = 0x02, 0x10
# Flags that are looked at: FIN, SYN, RST, ACK.
OPENING_MASK = 0x17


class PacketError(ValueError):
    """There is no such packet."""


def text_of(packed):
    """An address; IPv4 in IPv6 stays what it is."""
    return str(ipaddress.ip_address(packed))


def checksum(data):
    """RFC 1071, of bytes whose checksum field is zero."""
    if len(data) % 2:
        data += b'\0'
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A packet in words. ``length``: of the IP packet, 0: what it needs.

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
    vlans: tuple = ()
    fragment: str | None = None
    may_fragment: bool = False
    payload: bytes = b''


def _transport(wanted, version):
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


def _seal(protocol, pseudo, segment):
    """With its checksum; SCTP's CRC nobody here looks at."""
    at = {TCP: 16, UDP: 6, ICMP: 2, ICMPV6: 2}.get(protocol)
    if at is None:
        return segment
    header = b'' if protocol == ICMP else pseudo
    value = checksum(header + segment)
    if protocol == UDP and not value:
        value = 0xffff
    return segment[:at] + struct.pack('!H', value) + segment[at + 2:]


def frame(wanted):
    """The frame of a packet in words.

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
    pseudo = source.packed + destination.packed + struct.pack(
        '!II', len(segment), protocol)
    segment = _seal(protocol, pseudo, segment)
    build = _ipv4 if version == 4 else _ipv6
    packet = build(wanted, protocol, source.packed, destination.packed,
                   segment)
    return _link(wanted, IPV4_TYPE if version == 4 else IPV6_TYPE) + packet


def _link(wanted, kind):
    # Locally administered addresses: the program does not look at them.
    link = bytes.fromhex('020000000001' '020000000002')
    for position, vlan in enumerate(wanted.vlans):
        inner = position + 1 == len(wanted.vlans)
        link += struct.pack('!HH', VLAN_TYPES[not inner], vlan)
    return link + struct.pack('!H', kind)


def _ipv4(wanted, protocol, source, destination, segment):
    flags = {None: 0, 'first': 0x2000, 'later': 185}[wanted.fragment]
    if not wanted.may_fragment and not wanted.fragment:
        flags |= 0x4000
    total = 20 + len(segment)
    if total > 65535:
        raise PacketError(f'no IPv4 packet has {total} bytes')
    header = struct.pack('!BBHHHBBH', 0x45, wanted.dscp << 2, total,
                         FRAGMENT_ID, flags, 64, protocol, 0)
    header += source + destination
    return header[:10] + struct.pack('!H', checksum(header)) + (
        header[12:] + segment)


def _ipv6(wanted, protocol, source, destination, segment):
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
                           source + destination + extension + segment)


@dataclasses.dataclass
class Parsed:
    """A frame taken apart. Positions are offsets in the frame.

    ``wrong``: what makes it malformed, if it is for a VIP.
    """

    frame: bytes
    network: int
    version: int
    source: str
    destination: str
    vlans: tuple = ()
    traffic_class: int = 0
    dont_fragment: bool = True
    end: int = 0
    transport: int = 0
    protocol: int = 0
    first: bool = False
    later: bool = False
    fragment_id: int = 0
    fragment_protocol: int = 0
    wrong: str | None = None

    @property
    def length(self):
        """Of the IP packet."""
        return self.end - self.network

    def part(self, offset, size):
        """Bytes of the IP packet, or None if they are not all in it."""
        if offset + size > self.end or offset + size > len(self.frame):
            return None
        return self.frame[offset:offset + size]


def parse(frame_):
    """A Parsed, or why the program does not look at the frame, as text."""
    at, vlans = 12, []
    while True:
        if len(frame_) < at + 2:
            return 'the frame ends within its link header'
        kind, = struct.unpack_from('!H', frame_, at)
        at += 2
        if kind not in VLAN_TYPES or len(vlans) == 2:
            break
        if len(frame_) < at + 2:
            return 'the frame ends within its link header'
        vlans.append(struct.unpack_from('!H', frame_, at)[0])
        at += 2
    if frame_[0] & 1:
        return f'to the group {frame_[:6].hex(":")}, not to this node alone'
    if kind == IPV4_TYPE:
        found = _parse_ipv4(frame_, at)
    elif kind == IPV6_TYPE:
        found = _parse_ipv6(frame_, at)
    else:
        return f'Ethertype 0x{kind:04x} is neither IPv4 nor IPv6'
    if isinstance(found, Parsed):
        found.vlans = tuple(vlans)
    return found


def _parse_ipv4(frame_, at):
    if len(frame_) < at + 20:
        return 'the frame ends within the IPv4 header'
    first, tos, total, name, fragment, _ttl, protocol = struct.unpack_from(
        '!BBHHHBB', frame_, at)
    if first >> 4 != 4:
        return f'the IPv4 header says version {first >> 4}'
    packet = Parsed(
        frame_, at, 4, text_of(frame_[at + 12:at + 16]),
        text_of(frame_[at + 16:at + 20]), traffic_class=tos,
        dont_fragment=bool(fragment & 0x4000), end=at + total,
        transport=at + 4 * (first & 15), protocol=protocol,
        later=bool(fragment & 0x1fff), fragment_id=name,
        fragment_protocol=protocol)
    packet.first = bool(fragment & 0x2000) and not packet.later
    header = 4 * (first & 15)
    if header < 20:
        packet.wrong = f'an IPv4 header of {header} bytes'
    elif total < header:
        packet.wrong = f'{total} bytes in all, {header} of header'
    elif packet.end > len(frame_):
        packet.wrong = (f'{total} bytes in all, the frame holds '
                        f'{len(frame_) - at}')
    return packet


def _parse_ipv6(frame_, at):
    if len(frame_) < at + 40:
        return 'the frame ends within the IPv6 header'
    word, length, protocol = struct.unpack_from('!IHB', frame_, at)
    if word >> 28 != 6:
        return f'the IPv6 header says version {word >> 28}'
    packet = Parsed(
        frame_, at, 6, text_of(frame_[at + 8:at + 24]),
        text_of(frame_[at + 24:at + 40]), traffic_class=word >> 20 & 255,
        end=at + 40 + length, transport=at + 40, protocol=protocol)
    if not length:
        packet.wrong = 'an IPv6 payload of 0 bytes'
    elif packet.end > len(frame_):
        packet.wrong = (f'an IPv6 payload of {length} bytes, the frame '
                        f'holds {len(frame_) - at - 40}')
    else:
        packet.wrong = walk_extensions(packet)
    return packet


def walk_extensions(packet):
    """From packet.transport behind the last extension header. Returns what
    is wrong with them, or None."""
    for _count in range(EXTENSIONS_MAX):
        if packet.later or packet.protocol not in EXTENSIONS:
            return None
        header = packet.part(packet.transport, 8)
        if header is None:
            return 'an extension header that is cut short'
        length = 8
        if packet.protocol == FRAGMENT:
            if packet.first:
                return 'two fragment headers'
            where, = struct.unpack_from('!H', header, 2)
            packet.fragment_id, = struct.unpack_from('!I', header, 4)
            packet.fragment_protocol = header[0]
            packet.later = bool(where & 0xfff8)
            packet.first = bool(where & 1) and not packet.later
        else:
            length += 8 * header[1]
            if packet.protocol == ROUTING and header[3]:
                return 'a routing header with segments left'
        packet.protocol = header[0]
        packet.transport += length
        if packet.transport > packet.end:
            return 'an extension header that is cut short'
    if not packet.later and packet.protocol in EXTENSIONS:
        return f'more than {EXTENSIONS_MAX} extension headers'
    return None


def is_martian(source, destination):
    """Whether no client can have this source."""
    source = ipaddress.ip_address(source)
    if source == ipaddress.ip_address(destination):
        return True
    if source.version == 4:
        first = source.packed[0]
        return first in (0, 127) or first >= 224
    return (source.is_multicast or source.ipv4_mapped is not None
            or int(source) in (0, 1))
