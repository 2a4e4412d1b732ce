# SPDX-License-Identifier: Apache-2.0
"""Resets for TCP connections that are unknown or refused."""

import struct

from octavia_xdp_provider.tests.models.packet_model import checksum
from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import state

RST, ACK = 4, 16
TTL = 64


def can_reset(packet: parse.Packet) -> bool:
    """Whether the packet has neither fragment nor extension headers."""
    if packet.family == state.IPV6:
        return packet.transport == packet.network + 40
    return not packet.first


def reset_back(packet: parse.Packet) -> bytes:
    """Return the frame that refuses a connection to the sender of its SYN."""
    frame, network = packet.frame, packet.network
    return frame[6:12] + frame[0:6] + frame[12:network] + reset(packet)


def reset(packet: parse.Packet) -> bytes:
    """Return the RST for a SYN, or for a packet with ACK, of an unknown
    connection."""
    frame, at = packet.frame, packet.transport
    sequence = acked = 0
    flags = RST
    if frame[at + 13] & ACK:
        sequence = int.from_bytes(frame[at + 8:at + 12], 'big')
    else:
        header = (frame[at + 12] >> 4) * 4
        acked = (int.from_bytes(frame[at + 4:at + 8], 'big') + 1 +
                 packet.end - at - header) % (1 << 32)
        flags |= ACK
    tcp = (frame[at + 2:at + 4] + frame[at:at + 2] +
           struct.pack('!IIBBHHH', sequence, acked, 0x50, flags, 0, 0, 0))
    vip, client = packet.destination, packet.source
    pseudo = vip + client + struct.pack('!HH', state.TCP, len(tcp))
    tcp = (tcp[:16] + checksum.checksum(pseudo + tcp).to_bytes(2, 'big') +
           tcp[18:])
    if packet.family == state.IPV6:
        return struct.pack('!IHBB16s16s', 6 << 28, len(tcp), state.TCP,
                           TTL, vip, client) + tcp
    ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(tcp), 0, 0x4000, TTL,
                     state.TCP, 0, vip, client)
    ip = ip[:10] + checksum.checksum(ip).to_bytes(2, 'big') + ip[12:]
    return ip + tcp
