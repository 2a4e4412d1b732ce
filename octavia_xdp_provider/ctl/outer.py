# SPDX-License-Identifier: Apache-2.0
"""What leaves a node, taken apart: link header and outer headers."""

import typing

from octavia_xdp_provider.ctl import describe
from octavia_xdp_provider.packet_model import encap
from octavia_xdp_provider.packet_model import parse
from octavia_xdp_provider.packet_model import state

Encapsulation = state.Encapsulation
_BY_PORT = {encap.GUE_PORT: Encapsulation.GUE,
            encap.GENEVE_PORT: Encapsulation.GENEVE}


class Outer(typing.NamedTuple):
    """``encapsulation`` is None where there is none; ``carried``: bytes
    behind the outer headers; ``vni``: of Geneve."""

    destination_mac: str
    source_mac: str
    vlans: tuple
    encapsulation: Encapsulation | None
    source: str
    destination: str
    dscp: int
    carried: int
    vni: int | None = None

    def text(self):
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
    """What was sent by this encapsulation; None: no IP packet.

    Only DSCP cannot be seen, nor SRv6 be distinguished from IPIP.
    """
    found = parse.parse(frame)
    if type(found) is parse.Ignored:
        return None
    seen, inner = None, found.transport
    if encapsulation == Encapsulation.DSCP:
        seen, inner = encapsulation, found.network
    elif found.protocol in (encap.IPIP, encap.IP6):
        if encapsulation in (Encapsulation.IPIP, Encapsulation.SRV6):
            seen = encapsulation
    elif found.protocol == encap.GRE:
        seen = Encapsulation.GRE
        inner += encap.SHIM[seen]
    elif found.protocol == state.UDP:
        seen = _BY_PORT.get(int.from_bytes(describe.ports(found)[2:], 'big'))
        inner += encap.SHIM[seen] if seen is not None else 0
    vni = None
    if seen == Encapsulation.GENEVE:
        vni = int.from_bytes(frame[inner - 4:inner - 1], 'big')
    return Outer(frame[:6].hex(':'), frame[6:12].hex(':'),
                 describe.vlans(found), seen, describe.address(found.source),
                 describe.address(found.destination),
                 describe.traffic_class(found) >> 2, len(frame) - inner, vni)
