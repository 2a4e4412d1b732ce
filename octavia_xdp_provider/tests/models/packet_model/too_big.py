# SPDX-License-Identifier: Apache-2.0
"""ICMP errors about packets that are too big, with the MTU."""

import struct

from octavia_xdp_provider.tests.models.packet_model import checksum
from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import state

LEAST = {state.IPV4: 576, state.IPV6: 1280}
QUOTED = {state.IPV4: 520, state.IPV6: 1232}
CLASS = 0xc0  # DSCP CS6
HOP_LIMIT = 64


def message(packet: parse.Packet, limit: int) -> bytes:
    """Return the frame that reports the MTU `limit` to the sender."""
    frame, network = packet.frame, packet.network
    link = frame[6:12] + frame[0:6] + frame[12:network]
    quote = frame[network:min(packet.end, network + QUOTED[packet.family])]
    vip, client = packet.destination, packet.source
    if packet.family == state.IPV4:
        icmp = struct.pack('!BBHHH', 3, 4, 0, 0, limit) + quote
        icmp = (icmp[:2] + checksum.checksum(icmp).to_bytes(2, 'big') +
                icmp[4:])
        header = struct.pack('!BBHHHBBH4s4s', 0x45, CLASS, 20 + len(icmp),
                             0, 0, HOP_LIMIT, state.ICMP, 0, vip, client)
        header = (header[:10] +
                  checksum.checksum(header).to_bytes(2, 'big') + header[12:])
        return link + header + icmp
    icmp = struct.pack('!BBHI', 2, 0, 0,
                       max(limit, LEAST[state.IPV6])) + quote
    pseudo = vip + client + struct.pack('!II', len(icmp), state.ICMPV6)
    icmp = (icmp[:2] +
            checksum.checksum(pseudo + icmp).to_bytes(2, 'big') + icmp[4:])
    header = struct.pack('!IHBB16s16s', 6 << 28 | CLASS << 20, len(icmp),
                         state.ICMPV6, HOP_LIMIT, vip, client)
    return link + header + icmp
