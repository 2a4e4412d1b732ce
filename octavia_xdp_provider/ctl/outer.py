# SPDX-License-Identifier: Apache-2.0
"""Decodes packets that leave a node: link header and outer headers."""

import typing

from octavia_xdp_provider.contracts.enumerations import SHIMS
from octavia_xdp_provider.ctl import describe
from octavia_xdp_provider.ctl import frame as frames
from octavia_xdp_provider.node.types import Encapsulation

_BY_PORT = {frames.GUE_PORT: Encapsulation.GUE,
            frames.GENEVE_PORT: Encapsulation.GENEVE}


class Outer(typing.NamedTuple):
    """``encapsulation``: None if none was detected; ``carried``: bytes after
    the outer headers; ``vni``: of Geneve."""

    destination_mac: str
    source_mac: str
    vlans: tuple[int, ...]
    encapsulation: Encapsulation | None
    source: str
    destination: str
    dscp: int
    carried: int
    vni: int | None = None

    def text(self) -> str:
        tags = ''.join(f' VLAN {tag & 4095}' for tag in self.vlans)
        name = (self.encapsulation.name if self.encapsulation is not None
                else 'unknown')
        more = f', DSCP {self.dscp}' if (
            self.encapsulation == Encapsulation.DSCP) else ''
        if self.vni is not None:
            more = f', VNI {self.vni}'
        return (f'{self.source_mac} -> {self.destination_mac}{tags}, {name} '
                f'{self.source} -> {self.destination}{more}')


def decode(frame: bytes, encapsulation: Encapsulation) -> Outer | None:
    """Decode a frame that was sent with this encapsulation; None if not IP.

    It detects the encapsulation, except DSCP and SRv6, which looks like IPIP.
    """
    packet = frames.decode(frame)
    if isinstance(packet, frames.Ignored):
        return None
    detected, inner = None, packet.transport
    if encapsulation == Encapsulation.DSCP:
        detected, inner = encapsulation, packet.network
    elif packet.protocol in (frames.IPIP, frames.IP6):
        if encapsulation in (Encapsulation.IPIP, Encapsulation.SRV6):
            detected = encapsulation
    elif packet.protocol == frames.GRE:
        detected = Encapsulation.GRE
        inner += SHIMS[detected]
    elif packet.protocol == frames.UDP:
        detected = _BY_PORT.get(packet.destination_port)
        inner += SHIMS[detected] if detected is not None else 0
    vni = None
    if detected == Encapsulation.GENEVE:
        vni = int.from_bytes(frame[inner - 4:inner - 1], 'big')
    return Outer(
        frame[:6].hex(':'), frame[6:12].hex(':'), describe.vlans(packet),
        detected, frames.address(packet.source), frames.address(
            packet.destination), describe.traffic_class(packet) >> 2,
        len(frame) - inner, vni)
