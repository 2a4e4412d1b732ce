# SPDX-License-Identifier: Apache-2.0
"""What leaves a node, taken apart: link header and outer headers."""

import struct
import typing

from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.node.types import Encapsulation

GUE_PORT = 6080
_IPIP, _IPV6, _GRE, _UDP = 4, 41, 47, 17
_SHIM = {Encapsulation.GUE: 8, Encapsulation.GRE: 4}


class Outer(typing.NamedTuple):
    """``inner``: where the client's IP packet begins."""

    destination_mac: str
    source_mac: str
    vlans: tuple
    encapsulation: Encapsulation | None
    version: int
    source: str
    destination: str
    dscp: int
    inner: int


def overhead(encapsulation, version):
    """Bytes in front of the client's IP packet; ``version`` is the outer
    one's."""
    if encapsulation == Encapsulation.DSCP:
        return 0
    return (20 if version == 4 else 40) + _SHIM.get(encapsulation, 0)


def decode(frame, encapsulation):
    """An Outer of a frame that a service with this encapsulation sent.

    ``encapsulation`` of the result is None where it is another one.
    """
    found = packet.parse(frame)
    if not isinstance(found, packet.Parsed):
        return None
    seen, inner = None, found.transport
    if encapsulation == Encapsulation.DSCP:
        seen, inner = encapsulation, found.network
    elif found.protocol in (_IPIP, _IPV6):
        if encapsulation in (Encapsulation.IPIP, Encapsulation.SRV6):
            seen = encapsulation
    elif found.protocol == _GRE:
        seen = Encapsulation.GRE
        inner += 4
    elif found.protocol == _UDP and found.part(
            found.transport + 2, 2) == struct.pack('!H', GUE_PORT):
        seen = Encapsulation.GUE
        inner += 8
    return Outer(frame[:6].hex(':'), frame[6:12].hex(':'), found.vlans, seen,
                 found.version, found.source, found.destination,
                 found.traffic_class >> 2, inner)


def member_destination(address, settings):
    """Where the outer packet to a member goes."""
    if settings.encapsulation != Encapsulation.SRV6 or (
            not settings.sid_function):
        return address
    packed = packet.ipaddress.ip_address(address).packed
    return packet.text_of(packed[:14]
                          + struct.pack('!H', settings.sid_function))
