# SPDX-License-Identifier: Apache-2.0
"""A packet of each kind, so that a slow machine can show that it works.

The model says what has to leave; what it says is held against scapy's
expectations in the other tests.
"""

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import nat_cases
from octavia_xdp_provider.tests.packets.support.cases import Encapsulation
from octavia_xdp_provider.tests.packets.support.cases import Outcome

CLIENTS = {cases.VIP4: cases.ip4, cases.VIP6: cases.ip6}
# encapsulation → the members that it can reach; None: of the VIP's family
MEMBERS = {
    Encapsulation.IPIP: (cases.MEMBER4, cases.MEMBER6),
    Encapsulation.GUE: (cases.MEMBER4, cases.MEMBER6),
    Encapsulation.GRE: (cases.MEMBER4, cases.MEMBER6),
    Encapsulation.SRV6: (cases.MEMBER6,),
    Encapsulation.GENEVE: (cases.MEMBER4, cases.MEMBER6),
    Encapsulation.DSCP: (None,),
}
DSCP = 11


class TestOneOfEachKind(cases.PacketCase):

    def outcomes(self, *packets):
        """Through program and model at once; they have to agree."""
        frames = [bytes(cases.link() / packet) for packet in packets]
        while not (results := self.compared.run(frames)):
            pass
        return [result.outcome for result in results]

    def test_each_encapsulation_and_family_forwards_tcp_udp_and_sctp(self):
        transports = {state.TCP: cases.tcp, state.UDP: cases.udp,
                      state.SCTP: cases.sctp_init}
        self.assertEqual(set(Encapsulation), MEMBERS.keys())
        for encapsulation, members in MEMBERS.items():
            for member in members:
                self.use(cases.plain_node())
                for vip in CLIENTS:
                    for protocol in transports:
                        self.service(
                            vip, protocol, member and [member],
                            encapsulation=encapsulation,
                            dscp=DSCP if member is None else 0)
                with self.subTest(encapsulation.name, member=member):
                    self.assertEqual(
                        [Outcome.FORWARDED] * 6, self.outcomes(*(
                            make() / transport()
                            for make in CLIENTS.values()
                            for transport in transports.values())))

    def test_echo_is_answered_in_both_families(self):
        self.use(cases.plain_node(echo=True, icmp_rate=1000))
        self.service()
        self.service(cases.VIP6)
        self.assertEqual([Outcome.ECHO_REPLY] * 2, self.outcomes(
            cases.ip4() / inet.ICMP(id=7, seq=9),
            cases.ip6() / inet6.ICMPv6EchoRequest(id=7, seq=9)))

    def test_too_big_is_answered_in_both_families(self):
        self.use(cases.plain_node(icmp_rate=1000))
        self.service()
        self.service(cases.VIP6)
        self.assertEqual([Outcome.SENT_TOO_BIG] * 2, self.outcomes(
            cases.ip4(flags='DF') / cases.tcp() / cases.payload(1450),
            cases.ip6() / cases.tcp() / cases.payload(1430)))

    def test_each_cause_drops(self):
        other, third = 81, 82
        self.service()
        self.service(port=other, members=[])
        self.service(port=third, allowed=[(bytes(4), 32)])
        syn = cases.tcp(flags='S', dport=third)
        self.assertEqual(
            [Outcome.DROP_MARTIAN, Outcome.DROP_MALFORMED,
             Outcome.DROP_NO_MEMBER, Outcome.DROP_NOT_ALLOWED,
             Outcome.DROP_FRAGMENT, Outcome.DROP_TUNNEL, Outcome.PASS],
            self.outcomes(
                cases.ip4(src='127.0.0.1') / cases.tcp(),
                cases.ip4(len=10) / cases.tcp(),
                cases.ip4() / cases.tcp(dport=other),
                cases.ip4() / syn,
                cases.ip4(frag=10, proto=17) / cases.payload(8),
                cases.ip4() / cases.ip4() / cases.tcp(),
                cases.ip4(dst=cases.OTHER4) / cases.tcp()))

    def test_no_next_hop_drops(self):
        self.use(cases.plain_node(uplinks=[]))
        self.service()
        self.assertEqual([Outcome.DROP_NO_NEXT_HOP], self.outcomes(
            cases.ip4() / cases.tcp()))


class TestNat(nat_cases.NatCase):

    def test_packets_go_both_ways_within_and_between_families(self):
        for front, back in nat_cases.PAIRS:
            with self.subTest(front=front, back=back):
                service = self.nat_service(front, back)
                self.sent(self.request(front, cases.tcp(flags='S')))
                self.sent(self.answer(service, back, cases.tcp(flags='SA')))
                self.compared.delete_service(service)
