# SPDX-License-Identifier: Apache-2.0
"""Packets of flows that another node has."""

import itertools

from scapy.layers import inet
from scapy.layers import l2

from octavia_xdp_provider.tests.models.packet_model import nat
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import nat_cases
from octavia_xdp_provider.tests.packets.support import nat_peers_case
from octavia_xdp_provider.tests.packets.support.cases import Action
from octavia_xdp_provider.tests.packets.support.cases import Outcome
from octavia_xdp_provider.tests.packets.support.nat_peers_case import AFTER
from octavia_xdp_provider.tests.packets.support.nat_peers_case import FOUND
from octavia_xdp_provider.tests.packets.support.nat_peers_case import LAST
from octavia_xdp_provider.tests.packets.support.nat_peers_case import LONG
from octavia_xdp_provider.tests.packets.support.nat_peers_case import LOST
from octavia_xdp_provider.tests.packets.support.nat_peers_case import NOBODY
from octavia_xdp_provider.tests.packets.support.nat_peers_case import OWN
from octavia_xdp_provider.tests.packets.support.nat_peers_case import OWNED
from octavia_xdp_provider.tests.packets.support.nat_peers_case import SEEK
from octavia_xdp_provider.tests.packets.support.nat_peers_case import STRANGER


class TestOrigin(nat_peers_case.PeersCase):

    def test_the_owner_is_sought_and_then_known(self):
        for make in self.unknown(LONG):
            packet = make()
            self.handed_on(packet, SEEK, 1, OWN, AFTER)
            self.handed_on(self.wrapped(packet, FOUND, 2), OWNED, 3, OWN, LAST)
            self.handed_on(packet, OWNED, 1, OWN, LAST)
            self.handed_on(make(sport=40001), SEEK, 1, OWN, AFTER)

    def test_an_owner_that_has_it_no_more_is_forgotten(self):
        for make in self.unknown(LONG):
            packet = make()
            self.handed_on(self.wrapped(packet, FOUND), OWNED, 2, OWN, LAST)
            self.handed_on(self.wrapped(packet, LOST, 2), SEEK, 3, OWN, AFTER)
            self.handed_on(packet, SEEK, 1, OWN, AFTER)

    def test_resets_and_fins_go_there_too(self):
        self.nat_service(4)
        for flags in ('R', 'FA', 'PA', 'SA'):
            self.handed_on(self.request(4, cases.tcp(flags=flags)), SEEK, 1,
                           OWN, AFTER)

    def test_what_opens_a_flow_begins_it_here(self):
        self.nat_service(4)
        self.nat_service(4, protocol=state.UDP)
        self.sent(self.request(4, cases.tcp(flags='S')))
        self.sent(self.request(4, cases.udp()))

    def test_flows_that_are_here_stay(self):
        self.known(4, 6)
        self.sent(self.ack(4))

    def test_an_owner_that_is_no_peer_any_more_is_forgotten(self):
        for make in self.unknown(LONG):
            packet = make()
            self.handed_on(self.wrapped(packet, FOUND), OWNED, 2, OWN, LAST)
            self.compared.change_peers(self.peers[:3])
            self.handed_on(packet, SEEK, 1, OWN, AFTER)
            self.compared.change_peers(self.peers)

    def test_the_class_goes_along_without_ecn(self):
        self.nat_service(4)
        out = self.handed_on(self.request(4, cases.tcp(flags='A'), tos=0xbb),
                             SEEK, 1, OWN, AFTER)
        self.assertEqual(0xb8, out.tos if self.family == 4 else out.tc)

    def test_errors_of_unknown_flows(self):
        self.nat_service(4)
        quoted = (inet.IP(src=cases.VIP4, dst=cases.CLIENT4) /
                  inet.TCP(sport=cases.PORT, dport=40000))
        error = (cases.link() / inet.IP(src='10.200.0.1', dst=cases.VIP4) /
                 inet.ICMP(type=3, code=4, nexthopmtu=1400) / quoted)
        self.handed_on(error, SEEK, 1, OWN, AFTER)

    def test_what_gets_too_long_is_answered(self):
        overhead = 28 if self.family == 4 else 48
        self.use(cases.plain_node(icmp_rate=1000))
        self.nat_service(4)
        room = 1500 - overhead - 40
        fits = self.request(4, cases.tcp(flags='A'), flags='DF')
        self.handed_on(fits / cases.payload(room), SEEK, 1, OWN, AFTER)
        result = self.check(fits / cases.payload(room + 1), Action.TX,
                            Outcome.SENT_TOO_BIG)
        self.assertEqual(1500 - overhead,
                         nat_cases.parsed(result.frame).nexthopmtu)

    def test_clients_promise_less(self):
        self.use(cases.plain_node(clamp_mss=True))
        service = self.known(4, 4)
        out = self.sent(self.answer(service, 4, cases.tcp(
            flags='SA', options=[('MSS', 1460)])))
        overhead = 28 if self.family == 4 else 48
        self.assertEqual(1460 - overhead, dict(out[inet.TCP].options)['MSS'])


class TestOthers(nat_peers_case.PeersCase):

    def test_a_flow_that_is_sought_and_here_is_told(self):
        for make in self.unknown(0, LONG):
            packet = make()
            self.sent(self.wrapped(packet, NOBODY) if inet.UDP in packet
                      else make(flags='S'))
            self.handed_on(self.wrapped(packet, SEEK, 2), FOUND, 3, OWN, LAST)

    def test_packets_for_the_owner_are_as_if_they_had_come_here(self):
        for (front, back), (protocol, make) in itertools.product(
                nat_cases.PAIRS, ((state.TCP, self.ack),
                                  (state.UDP, self.datagram))):
            with self.subTest(front=front, back=back, protocol=protocol):
                self.compared.seek_udp(0)
                service = self.known(front, back, protocol)
                self.sent(make(front))
                self.compared.seek_udp(LONG)
                pool, number, _ = self.flow(service)
                out = self.sent(self.wrapped(make(front), OWNED))
                self.assertEqual((pool, number, nat_cases.MEMBER[back]),
                                 (out.src, out.payload.sport, out.dst))
                self.assertTrue(nat_cases.is_sound(out))
                self.compared.compare_counters()
                self.compared.delete_service(service)

    def test_the_search_goes_on(self):
        for make in self.unknown(0, LONG):
            self.handed_on(self.wrapped(make(), SEEK, 2), SEEK, 3, LAST, AFTER)

    def test_who_is_not_the_owner_says_so(self):
        for make in self.unknown(0, LONG):
            self.handed_on(self.wrapped(make(), OWNED, 2), LOST, 3, OWN, LAST)

    def test_services_that_are_not_here_do_not_end_it(self):
        for packet in (self.ack(4), self.datagram(4)):
            self.handed_on(self.wrapped(packet, SEEK), SEEK, 2, LAST, AFTER)

    def test_in_front_of_its_origin_the_search_ends(self):
        for make in self.unknown(0, LONG):
            packet = self.wrapped(make(), SEEK, 3, origin=AFTER[self.family])
            self.handed_on(packet, NOBODY, 4, OWN, AFTER)

    def test_what_nobody_has_is_reset(self):
        self.use(cases.plain_node(icmp_rate=1000))
        service = self.nat_service(4)
        result = self.check(self.wrapped(self.ack(4, ack=9), NOBODY),
                            Action.TX, Outcome.SENT_RESET)
        out = nat_cases.parsed(result.frame)
        self.assertEqual((cases.VIP4, cases.CLIENT4, 9, 'R'), (
            out.src, out.dst, out[inet.TCP].seq, str(out[inet.TCP].flags)))
        self.compared.delete_service(service)
        self.dropped(self.wrapped(self.ack(4), NOBODY),
                     Outcome.DROP_NAT_PEER)

    def test_errors_reach_their_flow(self):
        service = self.known(4, 4)
        quoted = (inet.IP(src=cases.VIP4, dst=cases.CLIENT4) /
                  inet.TCP(sport=cases.PORT, dport=40000))
        error = (cases.link() / inet.IP(src='10.200.0.1', dst=cases.VIP4) /
                 inet.ICMP(type=3, code=4, nexthopmtu=1400) / quoted)
        out = self.sent(self.wrapped(error, SEEK))
        self.assertEqual(self.flow(service)[0], out.src)

    def test_others_than_peers_are_refused(self):
        self.known(4, 4)
        packet = self.ack(4)
        for frame in (
                self.wrapped(packet, SEEK, origin=STRANGER[self.family]),
                self.wrapped(packet, SEEK, origin=OWN[self.family]),
                self.wrapped(packet, 0), self.wrapped(packet, 6),
                self.wrapped(packet, SEEK, 32),
                self.wrapped(packet, SEEK, proto=0x86dd)):
            self.dropped(frame, Outcome.DROP_NAT_PEER)

    def test_nothing_else_gets_in(self):
        self.known(4, 4)
        for inner in (cases.ip4(proto=50) / cases.payload(20),
                      cases.ip4(dst=cases.OTHER4) / cases.tcp(flags='S'),
                      cases.ip4() / inet.ICMP(type=13)):
            self.dropped(self.wrapped(cases.link() / inner, OWNED),
                         Outcome.DROP_NAT_PEER)

    def test_other_tunnels_pass(self):
        packet = self.ack(4)
        for fields in ({'key': 1}, {'seqnum_present': 1},
                       {'chksum_present': 1}, {'proto': 0x6558}):
            self.passed(self.wrapped(packet, SEEK, **fields))


class TestEarlier(nat_peers_case.PeersCase):
    """A flow in TIME_WAIT, whose client may have used its port again."""

    def ended(self, by_member=False):
        service = self.known(4, 4)
        if by_member:
            self.sent(self.answer(service, 4, cases.tcp(
                flags='RA', ack=5000000)))
        else:
            self.sent(self.ack(4, seq=4999999))
            self.sent(self.request(4, cases.tcp(flags='R', seq=5000000)))
        self.assertEqual(nat.State.TIME_WAIT, self.state_of(service))
        return service

    def test_its_own_packets_stay(self):
        for by_member in (False, True):
            service = self.ended(by_member)
            for step in ((1 << 20) - 1, 1, -(1 << 20)):
                self.sent(self.ack(4, seq=5000000))
                self.sent(self.ack(4, seq=5000000 + step))
            self.compared.delete_service(service)

    def test_another_connection_is_sought(self):
        for by_member in (False, True):
            service = self.ended(by_member)
            for step in (1 << 20, -(1 << 20) - 1, 1 << 31):
                packet = self.ack(4, seq=5000000 + step)
                self.handed_on(packet, SEEK, 1, OWN, AFTER)
                self.handed_on(self.wrapped(packet, SEEK), SEEK, 2, LAST,
                               AFTER)
                self.handed_on(self.wrapped(packet, OWNED), LOST, 2, OWN,
                               LAST)
            self.compared.delete_service(service)

    def test_it_has_what_nobody_else_knows(self):
        """After a forged RST, say."""
        service = self.ended()
        before = self.flow(service)
        packet = self.ack(4, seq=1 << 31)
        self.sent(self.wrapped(packet, NOBODY))
        self.sent(packet)
        self.sent(self.ack(4, seq=(1 << 31) + 1000))
        self.assertEqual(before, self.flow(service))

    def sought_whatever_it_says(self):
        """Packets near 0 as well."""
        for sequence in (0, 1, (1 << 20) - 1, -(1 << 20) % (1 << 32), 1 << 31):
            packet = self.ack(4, seq=sequence)
            self.handed_on(packet, SEEK, 1, OWN, AFTER)
            self.handed_on(self.wrapped(packet, SEEK), SEEK, 2, LAST, AFTER)

    def test_without_a_number_any_other_is_sought(self):
        """A member ends a connection with a segment without ACK."""
        service = self.known(4, 4)
        self.sent(self.answer(service, 4, cases.tcp(flags='R', ack=0)))
        self.sought_whatever_it_says()
        packet = self.ack(4, seq=7000000)
        self.sent(self.wrapped(packet, NOBODY))
        self.sent(packet)
        self.compared.delete_service(service)
        service = self.known(4, 4)
        self.sent(self.request(4, cases.tcp(flags='FA', seq=5)))
        self.sent(self.answer(service, 4, cases.tcp(flags='F', ack=0)))
        self.assertEqual(nat.State.TIME_WAIT, self.state_of(service))
        self.sought_whatever_it_says()

    def test_a_port_that_is_used_again_forgets_the_number(self):
        service = self.ended()
        self.sent(self.request(4, cases.tcp(flags='S', seq=9)))
        self.sent(self.answer(service, 4, cases.tcp(flags='R', ack=0)))
        self.sought_whatever_it_says()

    def test_a_client_can_be_at_0(self):
        service = self.known(4, 4)
        # By both FINs: behind a RST it would live again if both went on.
        self.sent(self.request(4, cases.tcp(flags='FA', seq=(1 << 32) - 1)))
        self.sent(self.answer(service, 4, cases.tcp(flags='FA', ack=0)))
        for sequence in (0, 1 << 20, (1 << 32) + 1 - (1 << 20)):
            self.sent(self.wrapped(self.ack(4, seq=0), NOBODY))
            self.sent(self.ack(4, seq=sequence))
        self.sent(self.answer(service, 4, cases.tcp(flags='A', ack=0)))
        self.handed_on(self.ack(4, seq=(1 << 32) - (1 << 20)), SEEK, 1, OWN,
                       AFTER)

    def test_a_syn_begins_it_again(self):
        service = self.ended()
        before = self.flow(service)[:2]
        self.sent(self.request(4, cases.tcp(flags='S', seq=1 << 31)))
        self.assertEqual((*before, nat.State.HALF_OPEN), self.flow(service))

    def test_answers_say_where_the_client_is(self):
        service = self.ended()
        self.sent(self.answer(service, 4, cases.tcp(flags='A', ack=1 << 31)))
        self.sent(self.answer(service, 4, cases.tcp(flags='R', ack=7)))
        self.sent(self.ack(4, seq=1 << 31))


class TestOriginIPv6(TestOrigin):

    family = 6


class TestOthersIPv6(TestOthers):

    family = 6


class TestNoPeers(nat_cases.NatCase):

    def test_nothing_is_handed_on_or_taken(self):
        self.use(cases.plain_node(icmp_rate=1000))
        self.nat_service(4)
        self.check(self.request(4, cases.tcp(flags='A')), Action.TX,
                   Outcome.SENT_RESET)
        self.passed(cases.link() / inet.IP(src=LAST[4], dst=OWN[4]) /
                    l2.GRE(key_present=1, key=0x4f580101) /
                    cases.ip4() / cases.tcp())
