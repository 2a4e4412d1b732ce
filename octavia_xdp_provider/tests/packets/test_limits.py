# SPDX-License-Identifier: Apache-2.0
"""Connections beyond a limit, and which of them a reset refuses."""

from scapy.layers import inet6

from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support.cases import Outcome

REFUSED = Outcome.DROP_CONNECTION_LIMIT


class TestBudget(cases.PacketCase):

    def refuse(self, vip, header, *unanswerable):
        self.use(cases.plain_node(icmp_rate=2))
        self.service(vip, connection_limit=1, sends_reset=True)
        self.forwarded(cases.link() / header / cases.tcp(flags='S'))
        syn = cases.tcp(flags='S', sport=40001)
        frames = [bytes(cases.link() / one / syn) for one in
                  (*unanswerable * 3, header, header, header)]
        while not (results := self.compared.run(frames)):
            pass
        self.assertEqual(
            [REFUSED] * 3 * len(unanswerable) +
            [Outcome.SENT_RESET] * 2 + [REFUSED],
            [one.outcome for one in results])

    def test_fragments_take_none_of_it(self):
        self.refuse(cases.VIP4, cases.ip4(), cases.ip4(flags='MF'))

    def test_extension_headers_take_none_of_it(self):
        self.refuse(cases.VIP6, cases.ip6(),
                    cases.ip6() / inet6.IPv6ExtHdrDestOpt(),
                    cases.ip6() / inet6.IPv6ExtHdrFragment(m=1))
