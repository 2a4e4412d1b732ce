# SPDX-License-Identifier: Apache-2.0
"""Replaces the port of a service by that of a member."""

from octavia_xdp_provider.tests.models.packet_model import checksum
from octavia_xdp_provider.tests.models.packet_model import encap
from octavia_xdp_provider.tests.models.packet_model import icmp
from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import state

DESTINATION = 2  # offset in the transport header


def rewrite(packet: parse.Packet, port: int, is_error: bool):
    """Replace packet.frame by one with the port.

    :param is_error: the packet is an ICMP error, and the port the source port
        of its quote.
    """
    if packet.later:
        return
    if is_error:
        quoted = icmp.quoted(packet)
        assert quoted is not None  # else it would have been dropped
        _store(packet, quoted.at, port, icmp.CHECKSUM)
        return
    at = encap.TRANSPORT_CHECKSUM[packet.protocol]
    field = packet.transport + at
    without = (packet.protocol == state.UDP and
               packet.frame[field:field + 2] == b'\0\0')
    _store(packet, packet.transport + DESTINATION, port,
           None if without else at)


def _store(packet: parse.Packet, where: int, port: int,
           at: int | None):
    """:param at: offset of the checksum in the header at packet.transport;
        None: there is none.
    """
    frame, start = packet.frame, packet.transport
    new = frame[:where] + port.to_bytes(2, 'big') + frame[where + 2:]
    if at is not None:
        pseudo = checksum.pseudo_header(
            packet.source, packet.destination, packet.end - start,
            packet.protocol) if packet.protocol != state.ICMP else b''
        field = checksum.refreshed(
            pseudo + frame[start:packet.end], pseudo + new[start:packet.end],
            len(pseudo) + at)
        if packet.protocol == state.UDP and field == b'\0\0':
            field = b'\xff\xff'  # 0 would mean no checksum
        new = new[:start + at] + field + new[start + at + 2:]
    packet.frame = new
