# SPDX-License-Identifier: Apache-2.0
"""Clamps the maximum segment size of SYNs to what paths to members carry."""

from octavia_xdp_provider.tests.models.packet_model import checksum
from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import state

HEADERS = {state.IPV4: 40, state.IPV6: 60}
OPTIONS_MAX = 10
CHECKSUM = 16  # offset in the TCP header
END, NOTHING, SEGMENT_SIZE = 0, 1, 2


def _find(packet: parse.Packet) -> int | None:
    """Return the offset of the option's value."""
    frame = packet.frame
    at = packet.transport + 20
    end = packet.transport + (frame[packet.transport + 12] >> 4) * 4
    if end > packet.end:
        return None
    for _ in range(OPTIONS_MAX):
        if at >= end or frame[at] == END:
            return None
        if frame[at] == NOTHING:
            at += 1
            continue
        if at + 2 > end or frame[at + 1] < 2 or at + frame[at + 1] > end:
            return None
        if frame[at] == SEGMENT_SIZE:
            return at + 2 if frame[at + 1] == 4 else None
        at += frame[at + 1]
    return None


def clamp(packet: parse.Packet, limit: int):
    """Clamp the MSS so that packets have at most `limit` bytes."""
    clamp_to(packet, limit - HEADERS[packet.family])


def clamp_to(packet: parse.Packet, most: int):
    """Replace packet.frame if the option exceeds `most` bytes."""
    at = _find(packet)
    if at is None:
        return
    if int.from_bytes(packet.frame[at:at + 2], 'big') <= most:
        return
    frame, start = packet.frame, packet.transport
    new = frame[:at] + most.to_bytes(2, 'big') + frame[at + 2:]
    pseudo = checksum.pseudo_header(packet.source, packet.destination,
                                    packet.end - start, packet.protocol)
    field = checksum.refreshed(
        pseudo + frame[start:packet.end], pseudo + new[start:packet.end],
        len(pseudo) + CHECKSUM)
    packet.frame = (new[:start + CHECKSUM] + field +
                    new[start + CHECKSUM + 2:])
