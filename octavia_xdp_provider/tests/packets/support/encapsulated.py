# SPDX-License-Identifier: Apache-2.0
"""Packets inside of tunnels, as scapy makes them."""

from scapy.contrib import geneve
from scapy.layers import inet
from scapy.layers import l2

from octavia_xdp_provider.tests.models.packet_model import select
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support.cases import Encapsulation
from octavia_xdp_provider.tests.packets.support.cases import outer6

INNER = (cases.ip4, cases.ip6)


def rebuilt(packet):
    """Return the packet with lengths and checksums filled in."""
    return packet.__class__(bytes(packet))


def carried(inner, protocol, encapsulation, outer, key=0, **fields):
    """The packet behind the headers of RFC 2003 and 2473, of the draft of GUE,
    of RFC 2784, or of RFC 8926 without Ethernet inside."""
    entropy = entropy_of(inner, protocol)
    kind = 0x0800 if inner.version == 4 else 0x86dd
    source = {'sport': 0xc000 | entropy & 0x3fff, 'chksum': 0}
    header, shims = {
        Encapsulation.IPIP: (4 if inner.version == 4 else 41, ()),
        Encapsulation.GUE: (17, (inet.UDP(dport=6080, **source),)),
        Encapsulation.GRE: (47, (l2.GRE(proto=kind),)),
        Encapsulation.GENEVE: (17, (inet.UDP(dport=6081, **source),
                                    geneve.GENEVE(proto=kind, vni=key))),
    }[encapsulation]
    fields |= ({'nh': header, 'flow': entropy & 0xfffff} if outer is outer6
               else {'proto': header})
    packet = outer(inner, **fields)
    for layer in (*shims, inner):
        packet /= layer
    return packet


def entropy_of(inner, protocol: int) -> int:
    ports = bytes(inner.payload)[:4]
    source, destination = (cases.compared.packed(address)
                           for address in (inner.src, inner.dst))
    return select.flow_entropy(
        select.flow_hash(source, destination, ports, protocol))
