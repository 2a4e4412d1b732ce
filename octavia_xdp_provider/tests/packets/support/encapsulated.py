# SPDX-License-Identifier: Apache-2.0
"""Packets inside of tunnels, as scapy makes them."""

from scapy.contrib import geneve
from scapy.layers import inet

from octavia_xdp_provider.packet_model import select
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support.cases import outer6

INNER = (cases.ip4, cases.ip6)


def rebuilt(packet):
    """As it lies on the wire, lengths and checksums filled in."""
    return packet.__class__(bytes(packet))


def in_geneve(inner, protocol, outer, vni, member=None):
    """As RFC 8926 has it, without Ethernet inside."""
    entropy = entropy_of(inner, protocol)
    fields = {'proto': 17}
    if outer is outer6:
        fields = {'nh': 17, 'flow': entropy & 0xfffff}
    if member:
        fields['member'] = member
    return (outer(inner, **fields) /
            inet.UDP(sport=0xc000 | entropy & 0x3fff, dport=6081, chksum=0) /
            geneve.GENEVE(proto=0x0800 if inner.version == 4 else 0x86dd,
                          vni=vni) / inner)


def entropy_of(inner, protocol: int) -> int:
    ports = bytes(inner.payload)[:4]
    source, destination = (cases.compared.packed(one)
                           for one in (inner.src, inner.dst))
    return select.flow_entropy(
        select.flow_hash(source, destination, ports, protocol))
