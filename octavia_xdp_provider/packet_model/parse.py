# SPDX-License-Identifier: Apache-2.0
"""Where a frame's headers are, and whether it is what it says."""

from octavia_xdp_provider.packet_model import state

VLAN = (b'\x81\x00', b'\x88\xa8')
HEADER = {state.TCP: 20, state.UDP: 8, state.SCTP: 12}
HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION = 0, 43, 44, 60
EXTENSIONS_MAX = 6


class Packet:
    """An IPv4 or IPv6 packet; offsets count from the frame's first byte."""

    __slots__ = ('clamps', 'destination', 'dont_fragment', 'end', 'family',
                 'first', 'fragment_id', 'fragment_protocol', 'frame',
                 'later', 'network', 'opens', 'protocol', 'source',
                 'transport', 'wrong')


def parse(frame: bytes) -> Packet | None:
    """None: to a group, neither IPv4 nor IPv6, or too short to tell.

    `wrong` says that the packet is malformed; the fields that could not be
    told are then missing.
    """
    if frame[0] & 1:
        return None
    at = 12
    for _ in range(2):
        if frame[at:at + 2] not in VLAN:
            break
        at += 4
    ethertype = frame[at:at + 2]
    network = at + 2
    packet = Packet()
    packet.frame = frame
    packet.network = network
    packet.wrong = packet.later = packet.first = False
    if ethertype == b'\x08\x00':
        if len(frame) < network + 20 or frame[network] >> 4 != 4:
            return None
        packet.family = state.IPV4
        packet.source = frame[network + 12:network + 16]
        packet.destination = frame[network + 16:network + 20]
        packet.wrong = not _ipv4(packet)
    elif ethertype == b'\x86\xdd':
        if len(frame) < network + 40 or frame[network] >> 4 != 6:
            return None
        packet.family = state.IPV6
        packet.source = frame[network + 8:network + 24]
        packet.destination = frame[network + 24:network + 40]
        packet.wrong = not _ipv6(packet)
    else:
        return None
    if not packet.wrong and not packet.later:
        needed = HEADER.get(packet.protocol, 0)
        packet.wrong = packet.transport + needed > packet.end
    return packet


def _ipv4(packet: Packet) -> bool:
    frame, network = packet.frame, packet.network
    header = (frame[network] & 15) * 4
    length = frame[network + 2] << 8 | frame[network + 3]
    if header < 20 or length < header or network + length > len(frame):
        return False
    packet.end = network + length
    packet.transport = network + header
    packet.protocol = packet.fragment_protocol = frame[network + 9]
    flags = frame[network + 6] << 8 | frame[network + 7]
    packet.dont_fragment = bool(flags & 0x4000)
    packet.later = bool(flags & 0x1fff)
    packet.first = not packet.later and bool(flags & 0x2000)
    packet.fragment_id = frame[network + 4:network + 6]
    return True


def _ipv6(packet: Packet) -> bool:
    frame, network = packet.frame, packet.network
    length = frame[network + 4] << 8 | frame[network + 5]
    if not length or network + 40 + length > len(frame):
        return False
    packet.end = network + 40 + length
    packet.dont_fragment = True
    return walk(packet, frame[network + 6], network + 40)


def walk(packet: Packet, protocol: int, at: int) -> bool:
    """Walk IPv6 extension headers up to packet.end."""
    frame, end = packet.frame, packet.end
    walked = 0
    while protocol in (HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION):
        walked += 1
        if walked > EXTENSIONS_MAX or at + 8 > end:
            return False
        following = frame[at]
        if protocol == FRAGMENT:
            if packet.first:
                return False
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
                return False
            if protocol == ROUTING and frame[at + 3]:
                return False
        protocol = following
        at += length
        if packet.later:
            break
    packet.protocol = protocol
    packet.transport = at
    return True
