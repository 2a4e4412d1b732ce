# SPDX-License-Identifier: Apache-2.0
"""Encapsulation: the uplink's link header, the outer header, the packet."""

import struct

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.tests.models.packet_model import checksum
from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import state

Encapsulation = state.Encapsulation
HEADER = {state.IPV4: 20, state.IPV6: 40}
SHIM = enumerations.SHIMS
IPIP, IP6, GRE, ROUTING = 4, 41, 47, 43
GUE_PORT = 6080
GENEVE_PORT = 6081
UDP_PORTS = (GUE_PORT, GENEVE_PORT)
HOP_LIMIT = 64
TRANSPORT_CHECKSUM = {state.TCP: 16, state.UDP: 6, state.ICMPV6: 2}


def outer_family(service: state.Service, member: state.Member) -> int:
    if member.encapsulation == Encapsulation.DSCP:
        return service.family
    return state.IPV4 if len(member.outer) == 4 else state.IPV6


def overhead(service: state.Service, member: state.Member) -> int:
    """Return the outer header's bytes, including a possible alternative."""
    if member.encapsulation == Encapsulation.DSCP:
        return 0
    return (HEADER[outer_family(service, member)] +
            SHIM[member.encapsulation] + member.alternative)


def _udp(entropy: int, port: int, length: int) -> bytes:
    return struct.pack('!4H', 0xc000 | entropy & 0x3fff, port, length, 0)


def encapsulate(node: state.Node, service: state.Service,
                member: state.Member, packet: parse.Packet, entropy: int,
                link: bytes, alternative: state.Member | None = None
                ) -> bytes:
    if member.encapsulation == Encapsulation.DSCP:
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
    if alternative is not None:
        shim, protocol = _with_alternative(
            member, alternative, ethertype, protocol, entropy, length)
    elif member.encapsulation == Encapsulation.GUE:
        protocol = state.UDP
        shim = _udp(entropy, GUE_PORT, 8 + length)
    elif member.encapsulation == Encapsulation.GRE:
        protocol = GRE
        shim = b'\0\0' + ethertype
    elif member.encapsulation == Encapsulation.GENEVE:
        protocol = state.UDP
        shim = (_udp(entropy, GENEVE_PORT, 16 + length) + b'\0\0' + ethertype +
                member.key.to_bytes(3, 'big') + b'\0')
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


def _with_alternative(member: state.Member, alternative: state.Member,
                      ethertype: bytes, inner: int, entropy: int,
                      length: int) -> tuple[bytes, int]:
    """Return what follows the outer IP header of a packet that names a second
    member, and the protocol of that. `length`: bytes of the packet."""
    address = alternative.outer
    words = len(address) // 4
    if member.encapsulation == Encapsulation.GUE:
        header = bytes((1 + words, inner, 0, 0)) + bytes((0, 0, 0, 1))
        length += 8 + len(header) + len(address)
        return (_udp(entropy, GUE_PORT, length) + header + address,
                state.UDP)
    if member.encapsulation == Encapsulation.GENEVE:
        header = (bytes((2 + words, 0)) + ethertype +
                  member.key.to_bytes(3, 'big') + b'\0' +
                  b'\xff\x4f\x01' + bytes((1 + words,)) +
                  alternative.key.to_bytes(3, 'big') + b'\0')
        length += 8 + len(header) + len(address)
        return (_udp(entropy, GENEVE_PORT, length) + header + address,
                state.UDP)
    return bytes((inner, 2, 4, 1)) + bytes(4) + address, ROUTING


def _rewritten(service: state.Service, member: state.Member,
               packet: parse.Packet) -> bytes:
    frame, start = packet.frame, packet.transport
    header = bytearray(frame[packet.network:start])
    if packet.family == state.IPV4:
        header[1] = service.dscp << 2 | header[1] & 3
        header[16:20] = member.outer
        header[10:12] = checksum.refreshed(
            frame[packet.network:start], bytes(header), 10)
    else:
        tos = service.dscp << 2 | header[1] >> 4 & 3
        header[0] = 0x60 | tos >> 4
        header[1] = (tos & 15) << 4 | header[1] & 15
        header[24:40] = member.outer
    rest = frame[start:]
    at = TRANSPORT_CHECKSUM.get(packet.protocol)
    if at is not None and not packet.later:
        rest = _readdressed(packet, rest, at, member.outer)
    return bytes(header) + rest


def _readdressed(packet: parse.Packet, rest: bytes, at: int,
                 destination: bytes) -> bytes:
    """Return the transport header and payload with the checksum at `at`
    updated for another destination."""
    udp = packet.protocol == state.UDP
    if udp and rest[at:at + 2] == b'\0\0':
        return rest  # no checksum: RFC 768, in IPv6 RFC 6935
    message = rest[:packet.end - packet.transport]
    before, after = (checksum.pseudo_header(
        packet.source, address, len(message), packet.protocol)
        for address in (packet.destination, destination))
    field = checksum.refreshed(before + message, after + message,
                               len(after) + at)
    if udp and field == b'\0\0':
        field = b'\xff\xff'  # 0 would mean no checksum
    return rest[:at] + field + rest[at + 2:]
