# SPDX-License-Identifier: Apache-2.0
"""Decodes the headers of a frame, to describe it.

What the program makes of a frame is not decided here.
"""

import ipaddress

IPV4, IPV6 = 4, 6
ICMP, TCP, UDP, ICMPV6, SCTP = 1, 6, 17, 58, 132
IPIP, IP6, GRE = 4, 41, 47
GUE_PORT, GENEVE_PORT = 6080, 6081
VLAN = (b'\x81\x00', b'\x88\xa8')
HEADER = {TCP: 20, UDP: 8, SCTP: 12}
HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION = 0, 43, 44, 60
EXTENSIONS = (HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION)
EXTENSIONS_MAX = 6
CUT_SHORT = 'an extension header that is cut short'


class Ignored(str):
    """Why a frame is left to the kernel without further decoding."""


class Packet:
    """An IPv4 or IPv6 packet; offsets count from the frame's first byte.

    `wrong`: why the packet is malformed, or None. Fields that could not be
    read keep values of the headers before.
    """

    frame: bytes
    family: int
    network: int
    transport: int
    end: int
    protocol: int
    source: bytes
    destination: bytes
    dont_fragment: bool
    first: bool
    later: bool
    fragment_id: bytes
    wrong: str | None

    @property
    def ports(self) -> bytes:
        """The ports as in the packet; all zeroes if it has none."""
        data = self.frame[self.transport:self.transport + 4]
        if self.protocol in HEADER and len(data) == 4 and not self.later:
            return data
        return bytes(4)

    @property
    def destination_port(self) -> int:
        return int.from_bytes(self.ports[2:], 'big')


def address(packed: bytes) -> str:
    """Format an address; IPv4-mapped ones remain IPv6."""
    return str(ipaddress.ip_address(packed))


def decode(frame: bytes) -> Packet | Ignored:
    """Decode a frame. Multicast frames, and frames that are not IP or too
    short to tell, are Ignored."""
    if len(frame) < 14:
        return Ignored('the frame ends within its link header')
    if frame[0] & 1:
        return Ignored(f'to the group {frame[:6].hex(":")}, not to this node '
                       'alone')
    at = 12
    for _ in range(2):
        if frame[at:at + 2] not in VLAN:
            break
        at += 4
    ethertype = frame[at:at + 2]
    if len(ethertype) < 2:
        return Ignored('the frame ends within its link header')
    packet = Packet()
    packet.frame, packet.network = frame, at + 2
    packet.later = packet.first = False
    if ethertype == b'\x08\x00':
        packet.family, header, decode_ip = IPV4, 20, _ipv4
    elif ethertype == b'\x86\xdd':
        packet.family, header, decode_ip = IPV6, 40, _ipv6
    else:
        return Ignored(f'Ethertype 0x{ethertype.hex()} is neither IPv4 nor '
                       'IPv6')
    if len(frame) < packet.network + header:
        return Ignored(f'the frame ends within the IPv{packet.family} header')
    version = frame[packet.network] >> 4
    if version != packet.family:
        return Ignored(f'the IPv{packet.family} header says version {version}')
    packet.wrong = decode_ip(packet)
    if packet.wrong is None and not packet.later:
        needed = HEADER.get(packet.protocol, 0)
        if packet.transport + needed > packet.end:
            packet.wrong = (f'less than the {needed} bytes of the transport '
                            'header')
    return packet


def _ipv4(packet: Packet) -> str | None:
    """Return what is wrong, or None."""
    frame, network = packet.frame, packet.network
    packet.source = frame[network + 12:network + 16]
    packet.destination = frame[network + 16:network + 20]
    header = (frame[network] & 15) * 4
    length = frame[network + 2] << 8 | frame[network + 3]
    packet.end = network + length
    packet.transport = network + header
    packet.protocol = frame[network + 9]
    flags = frame[network + 6] << 8 | frame[network + 7]
    packet.dont_fragment = bool(flags & 0x4000)
    packet.later = bool(flags & 0x1fff)
    packet.first = not packet.later and bool(flags & 0x2000)
    packet.fragment_id = frame[network + 4:network + 6]
    if header < 20:
        return f'an IPv4 header of {header} bytes'
    if length < header:
        return f'{length} bytes in all, {header} of header'
    if network + length > len(frame):
        return (f'{length} bytes in all, the frame holds '
                f'{len(frame) - network}')
    return None


def _ipv6(packet: Packet) -> str | None:
    """Return what is wrong, or None."""
    frame, network = packet.frame, packet.network
    packet.source = frame[network + 8:network + 24]
    packet.destination = frame[network + 24:network + 40]
    length = frame[network + 4] << 8 | frame[network + 5]
    packet.end = network + 40 + length
    packet.dont_fragment = True
    packet.protocol, packet.transport = frame[network + 6], network + 40
    if not length:
        return 'an IPv6 payload of 0 bytes'
    if packet.end > len(frame):
        return (f'an IPv6 payload of {length} bytes, the frame holds '
                f'{len(frame) - network - 40}')
    return _walk(packet)


def _walk(packet: Packet) -> str | None:
    """Walk the IPv6 extension headers; return what is wrong, or None."""
    frame, walked = packet.frame, 0
    while packet.protocol in EXTENSIONS and not packet.later:
        protocol, at = packet.protocol, packet.transport
        walked += 1
        if walked > EXTENSIONS_MAX:
            return f'more than {EXTENSIONS_MAX} extension headers'
        if at + 8 > packet.end:
            return CUT_SHORT
        length = 8
        if protocol == FRAGMENT:
            if packet.first:
                return 'two fragment headers'
            word = frame[at + 2] << 8 | frame[at + 3]
            packet.later = bool(word & 0xfff8)
            packet.first = not packet.later and bool(word & 1)
            packet.fragment_id = frame[at + 4:at + 8]
        else:
            length = (frame[at + 1] + 1) * 8
            if at + length > packet.end:
                return CUT_SHORT
            if protocol == ROUTING and frame[at + 3]:
                return 'a routing header with segments left'
        packet.protocol = frame[at]
        packet.transport = at + length
    return None
