# SPDX-License-Identifier: Apache-2.0
"""Budgets of what the node answers itself."""

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.tests.models.packet_model import rate
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support.cases import Outcome


class TestBudgets(cases.PacketCase):

    def setUp(self):
        super().setUp()
        self.use(cases.plain_node(echo=True, icmp_rate=16))
        for vip in (cases.VIP4, cases.VIP6):
            self.service(vip)

    def outcomes(self, frames):
        """Return the answers to frames that arrive in one unit of time."""
        frames = [bytes(cases.link() / packet) for packet in frames]
        while not (results := self.compared.run(frames)):
            pass
        return [result.outcome for result in results]

    def sources(self, count, pattern):
        """So many whose answers are counted in different places."""
        places = rate.Answers(self.node)
        sources, taken = [], set()
        for number in range(256):
            source = pattern.format(number)
            place = places.place(compared.packed(source))
            if place not in taken:
                taken.add(place)
                sources.append(source)
        return sources[:count]

    def test_a_source_takes_no_more_than_its_share(self):
        """The limit of one source leaves others their answers."""
        greedy, other = self.sources(2, '198.51.100.{}')
        self.assertEqual(
            [Outcome.ECHO_REPLY] * 2 + [Outcome.PASS] +
            [Outcome.ECHO_REPLY] * 2,
            self.outcomes([cases.ip4(src=source) / inet.ICMP()
                           for source in (greedy,) * 3 + (other,) * 2]))

    def test_a_network_of_ipv6_is_one_source(self):
        greedy, other = self.sources(2, '2001:db8:{:x}::7')
        self.assertEqual(
            [Outcome.ECHO_REPLY] * 2 + [Outcome.PASS, Outcome.ECHO_REPLY],
            self.outcomes([
                cases.ip6(src=source) / inet6.ICMPv6EchoRequest()
                for source in (greedy, greedy + '7', greedy + '8', other)]))

    def test_all_together_have_the_budget(self):
        sources = self.sources(9, '198.51.100.{}')
        self.assertEqual(
            [Outcome.ECHO_REPLY] * 16 + [Outcome.PASS] * 2,
            self.outcomes([cases.ip4(src=source) / inet.ICMP()
                           for source in sources * 2]))

    def test_pings_take_nothing_from_what_is_too_big(self):
        """Also not from their own source."""
        large = cases.ip4(flags='DF') / cases.tcp() / cases.payload(1500)
        pings = [cases.ip4(src=source) / inet.ICMP()
                 for source in self.sources(9, '198.51.100.{}') * 2]
        self.assertEqual(
            [Outcome.SENT_TOO_BIG] * 2 + [Outcome.DROP_TOO_BIG],
            self.outcomes(pings + [large] * 3)[18:])
