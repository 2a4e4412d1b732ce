# SPDX-License-Identifier: Apache-2.0
"""What leaves: the uplink's link header, the outer header, the packet."""

import struct

from octavia_xdp_provider.packet_model import checksum
from octavia_xdp_provider.packet_model import parse
from octavia_xdp_provider.packet_model import state

Encapsulation = state.Encapsulation
HEADER = {state.IPV4: 20, state.IPV6: 40}
SHIM = {Encapsulation.IPIP: 0, Encapsulation.SRV6: 0, Encapsulation.GUE: 8,
        Encapsulation.GRE: 4}
IPIP, IP6, GRE = 4, 41, 47
GUE_PORT = 6080
HOP_LIMIT = 64
TRANSPORT_CHECKSUM = {state.TCP: 16, state.UDP: 6, state.ICMPV6: 2}


def outer_family(service: state.Service, member: state.Member) -> int:
    if service.encapsulation == Encapsulation.DSCP:
        return service.family
    return state.IPV4 if len(member.address) == 4 else state.IPV6


def overhead(service: state.Service, member: state.Member) -> int:
    """Bytes of the outer header."""
    if service.encapsulation == Encapsulation.DSCP:
        return 0
    return (HEADER[outer_family(service, member)] +
            SHIM[service.encapsulation])


def encapsulate(node: state.Node, service: state.Service,
                member: state.Member, packet: parse.Packet, entropy: int,
                link: bytes) -> bytes:
    if service.encapsulation == Encapsulation.DSCP:
        return link + _rewritten(service, member, packet)
    frame, network = packet.frame, packet.network
    inner4 = packet.family == state.IPV4
    if inner4:
        tos = frame[network + 1]
        ethertype, protocol = b'\x08\x00', IPIP
    else:
        tos = frame[network] << 4 & 0xf0 | frame[network + 1] >> 4
        ethertype, protocol = b'\x86\xdd', IP6
    length = packet.end - network
    shim = b''
    if service.encapsulation == Encapsulation.GUE:
        protocol = state.UDP
        shim = struct.pack('!4H', 0xc000 | entropy & 0x3fff, GUE_PORT,
                           8 + length, 0)
    elif service.encapsulation == Encapsulation.GRE:
        protocol = GRE
        shim = b'\0\0' + ethertype
    length += len(shim)
    family = outer_family(service, member)
    mask = (1 << node.entropy[family]) - 1
    source = node.source[family]
    low = int.from_bytes(source[-4:], 'big') & ~mask | entropy & mask
    source = source[:-4] + low.to_bytes(4, 'big')
    if family == state.IPV4:
        identity = frame[network + 4:network + 6] if inner4 else b'\0\0'
        flags = frame[network + 6] & 0x40 if inner4 else 0x40
        header = struct.pack(
            '!BBH2sBBBBH4s4s', 0x45, tos, 20 + length, identity, flags, 0,
            HOP_LIMIT, protocol, 0, source, member.outer)
        header = (header[:10] +
                  checksum.checksum(header).to_bytes(2, 'big') + header[12:])
    else:
        header = struct.pack(
            '!IHBB16s16s', 6 << 28 | tos << 20 | entropy & 0xfffff, length,
            protocol, HOP_LIMIT, source, member.outer)
    return link + header + shim + frame[network:]


def _rewritten(service: state.Service, member: state.Member,
               packet: parse.Packet) -> bytes:
    ip = bytearray(packet.frame[packet.network:])
    at = 16 if packet.family == state.IPV4 else 24
    old, new = packet.destination, member.outer
    before = bytes(ip[:2])
    if packet.family == state.IPV4:
        ip[1] = service.dscp << 2 | ip[1] & 3
        checksum.correct(ip, 10, checksum.words(before + old),
                         checksum.words(bytes(ip[:2]) + new))
    else:
        tos = service.dscp << 2 | ip[1] >> 4 & 3
        ip[0] = 0x60 | tos >> 4
        ip[1] = (tos & 15) << 4 | ip[1] & 15
    ip[at:at + len(new)] = new
    where = TRANSPORT_CHECKSUM.get(packet.protocol)
    if where is not None and not packet.later:
        where += packet.transport - packet.network
        udp = packet.protocol == state.UDP
        if not udp or ip[where:where + 2] != b'\0\0':
            checksum.correct(ip, where, checksum.words(old),
                             checksum.words(new))
            if udp and ip[where:where + 2] == b'\0\0':
                ip[where:where + 2] = b'\xff\xff'
    return bytes(ip)
