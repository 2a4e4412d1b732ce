# SPDX-License-Identifier: Apache-2.0
"""Locates the headers of a frame and validates them."""

from octavia_xdp_provider.tests.models.packet_model import state

VLAN = (b'\x81\x00', b'\x88\xa8')
HEADER = {state.TCP: 20, state.UDP: 8, state.SCTP: 12}
READ = {state.SCTP: 8}  # bytes that are read, if less than the header
HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION = 0, 43, 44, 60
EXTENSIONS = (HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION)
EXTENSIONS_MAX = 6
END_MAX = 65535
PULLED = 256  # bytes pulled into the first of several buffers
CUT_SHORT = 'an extension header that is cut short'
OUT_OF_REACH = 'a header that is not in the first buffer'


class Ignored(str):
    """Why a frame is left to the kernel without further parsing."""


class Packet:
    """An IPv4 or IPv6 packet; offsets count from the frame's first byte.

    `wrong`: why the packet is malformed, or None. Fields that could not be
    read keep values of the headers before. `short`: the only fault is an
    incomplete transport header.
    """

    __slots__ = ('destination', 'dont_fragment', 'end', 'family', 'first',
                 'fragment_id', 'fragment_protocol', 'frame', 'later',
                 'network', 'protocol', 'readable', 'short', 'source',
                 'transport', 'wrong')

    @property
    def split(self) -> bool:
        return self.readable < len(self.frame)

    def holds(self, at: int, length: int) -> bool:
        """Whether the bytes are in the packet and in the readable part."""
        return at + length <= min(self.end, self.readable)


def parse(frame: bytes, readable: int | None = None) -> Packet | Ignored:
    """Parse a frame. Multicast frames, and frames that are not IP or too short
    to tell, are Ignored.

    :param readable: bytes in the first of several buffers, which contains the
        IP header; None: there is one buffer.
    """
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
    network = at + 2
    packet = Packet()
    packet.frame = frame
    packet.readable = len(frame) if readable is None else readable
    packet.network = network
    packet.later = packet.first = packet.short = False
    if ethertype == b'\x08\x00':
        if len(frame) < network + 20:
            return Ignored('the frame ends within the IPv4 header')
        if frame[network] >> 4 != 4:
            return Ignored('the IPv4 header says version '
                           f'{frame[network] >> 4}')
        packet.family = state.IPV4
        packet.source = frame[network + 12:network + 16]
        packet.destination = frame[network + 16:network + 20]
        packet.wrong = _ipv4(packet)
    elif ethertype == b'\x86\xdd':
        if len(frame) < network + 40:
            return Ignored('the frame ends within the IPv6 header')
        if frame[network] >> 4 != 6:
            return Ignored('the IPv6 header says version '
                           f'{frame[network] >> 4}')
        packet.family = state.IPV6
        packet.source = frame[network + 8:network + 24]
        packet.destination = frame[network + 24:network + 40]
        packet.wrong = _ipv6(packet)
    elif len(ethertype) < 2:
        return Ignored('the frame ends within its link header')
    else:
        return Ignored(f'Ethertype 0x{ethertype.hex()} is neither IPv4 nor '
                       'IPv6')
    if packet.wrong is None and not packet.later:
        needed = HEADER.get(packet.protocol, 0)
        if packet.transport + needed > packet.end:
            packet.short = True
            packet.wrong = (f'less than the {needed} bytes of the transport '
                            'header')
        elif needed and not packet.holds(
                packet.transport, READ.get(packet.protocol, needed)):
            packet.short = True
            packet.wrong = OUT_OF_REACH
    return packet


def _ipv4(packet: Packet) -> str | None:
    """Return what is wrong, or None."""
    frame, network = packet.frame, packet.network
    header = (frame[network] & 15) * 4
    length = frame[network + 2] << 8 | frame[network + 3]
    packet.end = network + length
    packet.transport = network + header
    packet.protocol = packet.fragment_protocol = frame[network + 9]
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
    return _far_end(packet)


def _far_end(packet: Packet) -> str | None:
    """Return what is wrong, or None."""
    if packet.end > END_MAX:
        return f'it ends behind byte {END_MAX} of the frame'
    return None


def _ipv6(packet: Packet) -> str | None:
    """Return what is wrong, or None."""
    frame, network = packet.frame, packet.network
    length = frame[network + 4] << 8 | frame[network + 5]
    packet.end = network + 40 + length
    packet.dont_fragment = True
    packet.protocol, packet.transport = frame[network + 6], network + 40
    if not length:
        return 'an IPv6 payload of 0 bytes'
    if network + 40 + length > len(frame):
        return (f'an IPv6 payload of {length} bytes, the frame holds '
                f'{len(frame) - network - 40}')
    return _far_end(packet) or walk(packet)


def walk(packet: Packet) -> str | None:
    """Walk IPv6 extension headers, from the one of type packet.protocol at
    packet.transport to packet.end; return what is wrong, or None."""
    frame, end = packet.frame, packet.end
    protocol, at = packet.protocol, packet.transport
    walked = 0
    while protocol in EXTENSIONS:
        walked += 1
        if walked > EXTENSIONS_MAX:
            return f'more than {EXTENSIONS_MAX} extension headers'
        if at + 8 > end:
            return CUT_SHORT
        if not packet.holds(at, 8):
            return OUT_OF_REACH
        following = frame[at]
        if protocol == FRAGMENT:
            if packet.first:
                return 'two fragment headers'
            word = frame[at + 2] << 8 | frame[at + 3]
            if word & 0xfff9:
                packet.later = bool(word & 0xfff8)
                packet.first = not packet.later
                packet.fragment_id = frame[at + 4:at + 8]
                packet.fragment_protocol = following
            length = 8
        else:
            length = (frame[at + 1] + 1) * 8
            if at + length > end:
                return CUT_SHORT
            if protocol == ROUTING and frame[at + 3]:
                return 'a routing header with segments left'
        protocol = following
        at += length
        if packet.later:
            break
    packet.protocol = protocol
    packet.transport = at
    return None
