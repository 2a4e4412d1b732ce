# SPDX-License-Identifier: Apache-2.0
"""Support for tests of NAT: pools, services, packets of both sides."""

import itertools

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared

POOL4, POOL6 = '203.0.113.0', '2001:db8:f::'
POOLS = ((compared.packed(POOL4), 30), (compared.packed(POOL6), 126))
LOCAL = 8080
FRONT = {4: (cases.VIP4, cases.CLIENT4, cases.ip4),
         6: (cases.VIP6, cases.CLIENT6, cases.ip6)}
MEMBER = {4: cases.MEMBER4, 6: cases.MEMBER6}
PAIRS = tuple(itertools.product((4, 6), (4, 6)))
LAYER = {state.TCP: inet.TCP, state.UDP: inet.UDP}


def parsed(frame: bytes):
    """The packet behind the link header."""
    kind = inet.IP if frame[14] >> 4 == 4 else inet6.IPv6
    return kind(frame[14:])


def is_sound(packet) -> bool:
    """Whether all checksums are those that scapy computes."""
    again = packet.__class__(bytes(packet))
    for layer in (inet.IP, inet.TCP, inet.UDP, inet.ICMP,
                  inet6.ICMPv6DestUnreach, inet6.ICMPv6PacketTooBig,
                  inet6.ICMPv6TimeExceeded, inet6.ICMPv6ParamProblem):
        if layer not in again:
            continue
        for name in ('chksum', 'cksum'):
            if name in again[layer].fields:
                del again[layer].fields[name]
        break
    return bytes(again) == bytes(packet)


class NatCase(cases.PacketCase):

    pools = POOLS

    def nat_service(self, front: int = 4, back: int = 4,
                    protocol: int = state.TCP, members=None, **options):
        return self.service(
            FRONT[front][0], protocol, members or [state.Member(
                compared.packed(MEMBER[back]), port=LOCAL)], nat=True,
            **options)

    def known(self, front: int = 4, back: int = 4,
              protocol: int = state.TCP, **options):
        """A service with a connection, of TCP, from port 40000."""
        service = self.nat_service(front, back, protocol, **options)
        if protocol == state.TCP:
            self.sent(self.request(front, cases.tcp(flags='S')))
        return service

    def request(self, front: int, transport, **fields):
        return cases.link() / FRONT[front][2](**fields) / transport

    def flow(self, service, client=None, port: int = 40000):
        """(pool's address, its port, state)"""
        client = client or FRONT[4 if len(service.vip) == 4 else 6][1]
        flow = self.compared.nat_flow(service, compared.packed(client), port)
        self.assertIsNotNone(flow)
        return compared.text(flow.pool.address), flow.pool.port, flow.state

    def answer(self, service, back: int, transport, **fields):
        """Return an answer of the member to the flow's port."""
        pool, number, _ = self.flow(service)
        transport.sport, transport.dport = LOCAL, number
        make = cases.ip4 if back == 4 else cases.ip6
        return cases.link() / make(src=MEMBER[back], dst=pool,
                                   **fields) / transport

    def sent(self, packet):
        result = self.forwarded(packet)
        return parsed(result.frame)

    def state_of(self, service):
        return self.flow(service)[2]
