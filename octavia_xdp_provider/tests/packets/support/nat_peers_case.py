# SPDX-License-Identifier: Apache-2.0
"""Packets that nodes hand on to each other.

There is one node here, which takes all parts: expectations come from scapy,
the model runs along.
"""

import functools
import itertools

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import nat_cases
from octavia_xdp_provider.tests.packets.support.cases import Action
from octavia_xdp_provider.tests.packets.support.cases import Outcome

SEEK, FOUND, OWNED, LOST, NOBODY = 1, 2, 3, 4, 5
LONG = 1000  # seconds
HANDED_ON = (Outcome.NAT_HANDED_ON,)
IP = {4: inet.IP, 6: inet6.IPv6}
OWN = {4: '203.0.113.0', 6: '2001:db8:f::'}
# In this order: the one before this node, this one, those after it.
BEFORE = {4: '192.0.2.1', 6: '2001:db8:a::1'}
AFTER = {4: '192.0.2.2', 6: '2001:db8:a::2'}
STRANGER = {4: '192.0.2.9', 6: '2001:db8:a::9'}
LAST = {4: '192.0.2.3', 6: '2001:db8:a::3'}


def all_peers(family: int) -> tuple[bytes, ...]:
    return tuple(compared.packed(addresses[family])
                 for addresses in (BEFORE, OWN, AFTER, LAST))


class PeersCase(nat_cases.NatCase):

    family = 4

    def setUp(self):
        super().setUp()
        self.addCleanup(self.compared.set_peers, ())
        self.addCleanup(self.compared.seek_udp, 0)

    @property
    def peers(self):
        return all_peers(self.family)

    def unknown(self, *seconds):
        """For each protocol and family of clients a function that makes
        packets of flows that are not here, while peers are asked for
        datagrams for so long."""
        for front, longest in itertools.product((4, 6), seconds):
            self.compared.seek_udp(longest)
            for protocol, make in ((state.TCP, self.ack),
                                   (state.UDP, self.datagram)):
                service = self.nat_service(front, protocol=protocol)
                with self.subTest(front=front, protocol=protocol,
                                  seconds=longest):
                    yield functools.partial(make, front)
                self.compared.delete_service(service)

    def wrapped(self, packet, kind, hops=1, origin=None, target=None,
                **fields):
        """A frame whose packet a peer has handed on."""
        header = IP[self.family](src=origin or LAST[self.family],
                                 dst=target or OWN[self.family])
        version = bytes(packet.payload)[0] >> 4
        gre = l2.GRE(key_present=1, key=0x4f580000 | kind << 8 | hops,
                     proto={4: 0x0800, 6: 0x86dd}[version])
        for name, value in fields.items():
            setattr(gre, name, value)
        return cases.link() / header / gre / packet.payload

    def handed_on(self, packet, kind, hops, source, target):
        """The packet leaves behind these headers, as it came."""
        result = self.check(packet, Action.TX, Outcome.FORWARDED,
                            remarks=HANDED_ON)
        out = nat_cases.parsed(result.frame)
        inner = packet[l2.GRE].payload if l2.GRE in packet else packet.payload
        self.assertEqual(
            (source[self.family], target[self.family],
             0x4f580000 | kind << 8 | hops, bytes(inner)),
            (out.src, out.dst, out[l2.GRE].key, bytes(out[l2.GRE].payload)))
        self.assertTrue(nat_cases.is_sound(out))
        if self.family == 4:
            self.assertEqual('DF', str(out.flags))
        return out

    def ack(self, front: int, **fields):
        return self.request(front, cases.tcp(**{'flags': 'A', **fields}))

    def datagram(self, front: int = 4, sport: int = 40000, **fields):
        return self.request(front, cases.udp(sport=sport), **fields)
