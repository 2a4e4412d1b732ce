# SPDX-License-Identifier: Apache-2.0
"""ICMP to a VIP: echo requests, and errors about flows."""

import typing

from octavia_xdp_provider.tests.models.packet_model import checksum
from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import state

HEADER = 8
ECHO = {state.IPV4: 8, state.IPV6: 128}
REPLY = {state.IPV4: 0, state.IPV6: 129}
ERRORS = {state.IPV4: (3, 4, 5, 11, 12), state.IPV6: (1, 2, 3, 4)}
HOP_LIMIT = 64
CHECKSUM = 2  # offset in the header


def wrong(packet: parse.Packet) -> str | None:
    """Return what is wrong with the position of the ICMP header."""
    if packet.transport + HEADER > packet.end:
        return f'less than the {HEADER} bytes of ICMP'
    if not packet.holds(packet.transport, HEADER):
        return parse.OUT_OF_REACH
    return None


def reply(packet: parse.Packet) -> bytes:
    """Return the frame that answers an echo request."""
    frame, network = packet.frame, packet.network
    header = bytearray(frame[network:packet.transport])
    message = frame[packet.transport:packet.end]
    answer = bytes((REPLY[packet.family],)) + message[1:]
    at = 12 if packet.family == state.IPV4 else 8
    both = packet.destination + packet.source
    header[at:at + len(both)] = both
    if packet.family == state.IPV4:
        header[8] = HOP_LIMIT
        header[10:12] = checksum.refreshed(
            frame[network:packet.transport], bytes(header), 10)
        pseudo = b''
    else:
        header[7] = HOP_LIMIT
        pseudo = checksum.pseudo_header(
            packet.source, packet.destination, len(message), packet.protocol)
    field = checksum.refreshed(pseudo + message, pseudo + answer,
                               len(pseudo) + CHECKSUM)
    return (frame[6:12] + frame[0:6] + frame[12:network] + header +
            answer[:CHECKSUM] + field + answer[CHECKSUM + 2:] +
            frame[packet.end:])


class Quoted(typing.NamedTuple):
    """The flow that an error is about. `ports`: as in the client's packets;
    `port`: the VIP's, at offset `at` of the frame."""

    client: bytes
    vip: bytes
    ports: bytes
    protocol: int
    port: int
    at: int


def quoted(packet: parse.Packet) -> Quoted | None:
    """Return the quoted flow; None if it is none of this VIP."""
    frame = packet.frame
    at = packet.transport + HEADER
    quote = parse.Packet()
    quote.frame, quote.end = frame, packet.end
    quote.readable = packet.readable
    quote.first = quote.later = False
    if packet.family == state.IPV4:
        if not packet.holds(at, 20) or frame[at] >> 4 != 4:
            return None
        header = (frame[at] & 15) * 4
        if header < 20 or (frame[at + 6] << 8 | frame[at + 7]) & 0x1fff:
            return None
        source, client = frame[at + 12:at + 16], frame[at + 16:at + 20]
        quote.protocol, quote.transport = frame[at + 9], at + header
    else:
        if not packet.holds(at, 40) or frame[at] >> 4 != 6:
            return None
        source, client = frame[at + 8:at + 24], frame[at + 24:at + 40]
        quote.protocol, quote.transport = frame[at + 6], at + 40
        if parse.walk(quote) is not None or quote.later:
            return None
    ports = frame[quote.transport:quote.transport + 4]
    if not packet.holds(quote.transport, 4) or source != packet.destination:
        return None
    if quote.protocol not in parse.HEADER:
        return None
    return Quoted(client, source, ports[2:] + ports[:2], quote.protocol,
                  ports[0] << 8 | ports[1], quote.transport)
