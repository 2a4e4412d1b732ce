# SPDX-License-Identifier: Apache-2.0
"""Datagrams of flows that another node may have, before the deadline until
which peers are asked for them and after it.
"""

from scapy.layers import inet

from octavia_xdp_provider.tests.models.packet_model import nat
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import nat_cases
from octavia_xdp_provider.tests.packets.support import nat_peers_case
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


class DatagramCase(nat_peers_case.PeersCase):

    seconds = 0

    def setUp(self):
        super().setUp()
        self.compared.seek_udp(self.seconds)
        self.udp_service = self.nat_service(4, protocol=state.UDP)

    def begins_here(self, packet):
        out = self.sent(packet)
        self.assertEqual((nat_cases.MEMBER[4], nat_cases.LOCAL),
                         (out.dst, out[inet.UDP].dport))
        self.assertEqual(nat.State.HALF_OPEN,
                         self.state_of(self.udp_service))


class TestBefore(DatagramCase):

    seconds = LONG

    def test_what_nobody_has_begins_here(self):
        packet = self.datagram()
        self.handed_on(packet, SEEK, 1, OWN, AFTER)
        self.begins_here(self.wrapped(packet, NOBODY, 4))
        self.sent(packet)
        # Another one that was under way at the same time.
        before = self.flow(self.udp_service)
        self.sent(self.wrapped(packet, NOBODY, 4))
        self.assertEqual(before, self.flow(self.udp_service))
        self.compared.compare_counters()

    def test_first_fragments_too(self):
        self.handed_on(self.datagram(flags='MF'), SEEK, 1, OWN, AFTER)

    def test_connections_still_begin_here(self):
        self.nat_service(4)
        self.sent(self.request(4, cases.tcp(flags='S')))

    def test_it_ends_by_itself(self):
        self.compared.seek_udp(1)
        self.handed_on(self.datagram(), SEEK, 1, OWN, AFTER)
        compared.wait_for_next_unit()
        self.begins_here(self.datagram())

    def test_without_others_all_begin_here(self):
        self.compared.set_peers(())
        self.begins_here(self.datagram())


class TestAfter(DatagramCase):
    """Nor was there any deadline on this node."""

    def test_unknown_flows_begin_here(self):
        self.begins_here(self.datagram())

    def test_an_owner_that_is_known_gets_its_packets(self):
        packet = self.datagram()
        self.handed_on(self.wrapped(packet, FOUND), OWNED, 2, OWN, LAST)
        self.handed_on(packet, OWNED, 1, OWN, LAST)
        self.assertIsNone(self.compared.nat_flow(
            self.udp_service, compared.packed(cases.CLIENT4), 40000))

    def test_of_one_that_has_it_no_more_it_begins_here(self):
        packet = self.datagram()
        self.handed_on(self.wrapped(packet, FOUND), OWNED, 2, OWN, LAST)
        self.begins_here(self.wrapped(packet, LOST, 2))
        self.sent(packet)

    def test_or_of_one_that_is_no_peer_any_more(self):
        packet = self.datagram()
        self.handed_on(self.wrapped(packet, FOUND), OWNED, 2, OWN, LAST)
        self.compared.change_peers(self.peers[:3])
        self.begins_here(packet)

    def test_lost_without_the_service(self):
        packet = self.datagram()
        self.compared.delete_service(self.udp_service)
        self.dropped(self.wrapped(packet, LOST, 2), Outcome.DROP_NAT_PEER)


class TestFragments(DatagramCase):
    """Later ones go where the first one went, once the owner is known."""

    def first(self, number: int = 7, **fields):
        return self.datagram(id=number, flags='MF', **fields)

    def later(self, number: int = 7, **fields):
        fields = {'frag': 100, **fields}
        return (cases.link() / cases.ip4(id=number, proto=17, **fields) /
                cases.payload(40))

    def know(self, owner=LAST):
        self.handed_on(self.wrapped(self.datagram(), FOUND,
                                    origin=owner[self.family]),
                       OWNED, 2, OWN, owner)

    def test_to_the_owner(self):
        self.know()
        self.dropped(self.later(), Outcome.DROP_FRAGMENT)
        self.handed_on(self.first(), OWNED, 1, OWN, LAST)
        self.handed_on(self.later(flags='MF'), OWNED, 1, OWN, LAST)
        self.handed_on(self.later(frag=200), OWNED, 1, OWN, LAST)
        self.dropped(self.later(8), Outcome.DROP_FRAGMENT)

    def test_of_a_first_one_that_was_found(self):
        self.handed_on(self.wrapped(self.first(), FOUND), OWNED, 2, OWN, LAST)
        self.handed_on(self.later(), OWNED, 1, OWN, LAST)

    def test_not_of_one_that_is_sought(self):
        self.compared.seek_udp(LONG)
        self.handed_on(self.first(), SEEK, 1, OWN, AFTER)
        self.dropped(self.later(), Outcome.DROP_FRAGMENT)

    def test_for_the_owner_they_are_as_if_they_had_come_here(self):
        self.begins_here(self.datagram())
        self.sent(self.wrapped(self.first(), OWNED))
        self.sent(self.wrapped(self.later(), OWNED))

    def test_here_again(self):
        self.know()
        self.handed_on(self.first(), OWNED, 1, OWN, LAST)
        self.begins_here(self.wrapped(self.first(), LOST))
        self.sent(self.later())

    def test_there_again(self):
        self.begins_here(self.first())
        self.sent(self.later())
        self.compared.delete_service(self.udp_service)
        self.udp_service = self.nat_service(4, protocol=state.UDP)
        self.know()
        self.handed_on(self.first(), OWNED, 1, OWN, LAST)
        self.handed_on(self.later(), OWNED, 1, OWN, LAST)

    def test_to_a_peer_that_is_none_any_more(self):
        self.know()
        self.handed_on(self.first(), OWNED, 1, OWN, LAST)
        self.compared.change_peers(self.peers[:3])
        self.dropped(self.later(), Outcome.DROP_FRAGMENT)
        self.compared.change_peers(self.peers[1:2])
        self.dropped(self.later(), Outcome.DROP_FRAGMENT)

    def test_peers_hand_on_none_that_they_do_not_know(self):
        self.know()
        self.handed_on(self.first(), OWNED, 1, OWN, LAST)
        for kind in (SEEK, FOUND, OWNED, LOST, NOBODY):
            self.dropped(self.wrapped(self.later(), kind),
                         Outcome.DROP_FRAGMENT)

    def test_of_connections(self):
        self.nat_service(4)
        self.handed_on(self.wrapped(self.ack(4), FOUND), OWNED, 2, OWN, LAST)
        self.handed_on(self.request(4, cases.tcp(flags='A'), id=9,
                                    flags='MF'), OWNED, 1, OWN, LAST)
        later = (cases.link() / cases.ip4(id=9, proto=6, frag=100) /
                 cases.payload(40))
        self.handed_on(later, OWNED, 1, OWN, LAST)


class TestBeforeIPv6(TestBefore):

    family = 6


class TestFragmentsIPv6(TestFragments):

    family = 6


class TestAfterIPv6(TestAfter):

    family = 6
