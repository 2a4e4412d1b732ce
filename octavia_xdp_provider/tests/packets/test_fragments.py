# SPDX-License-Identifier: Apache-2.0
"""Fragments: the first is selected, the others follow."""

from scapy.layers import inet6

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support.cases import Outcome

MEMBERS4 = [f'10.1.0.{index}' for index in range(1, 9)]
MEMBERS6 = [f'fd00:1::{index}' for index in range(1, 9)]
FIRST, LATER = 'first', 'later'


def four(which: str, identity: int = 1, client: str = cases.CLIENT4,
         transport=None, protocol: int = state.UDP, **fields):
    fields = {'src': client, 'id': identity, 'proto': protocol, **fields}
    if which == FIRST:
        return cases.ip4(flags='MF', **fields) / (
            transport or cases.udp(chksum=0x1234)) / cases.payload(64)
    return cases.ip4(frag=9, **fields) / cases.payload(40)


def six(which: str, identity: int = 1, client: str = cases.CLIENT6,
        transport=None, protocol: int = state.UDP):
    header = cases.ip6(src=client)
    if which == FIRST:
        return (header /
                inet6.IPv6ExtHdrFragment(nh=protocol, id=identity, m=1) /
                (transport or cases.udp(chksum=0x1234)) / cases.payload(64))
    return (header / inet6.IPv6ExtHdrFragment(nh=protocol, id=identity,
                                              offset=9) /
            cases.payload(40))


class TestFragments(cases.PacketCase):

    def setUp(self):
        super().setUp()
        self.services = {
            (vip, protocol, port): self.service(vip, protocol, members,
                                                port=port)
            for vip, members in ((cases.VIP4, MEMBERS4),
                                 (cases.VIP6, MEMBERS6))
            for protocol in (state.UDP, state.TCP) for port in (80, 443)}

    def member(self, packet, remarks=()):
        result = self.forwarded(cases.link() / packet, remarks=remarks)
        service = result.service
        return service, service.members[result.member].address

    def test_later_ones_follow_the_first(self):
        for make in (four, six):
            seen = set()
            for identity in range(40):
                transport = cases.udp(sport=identity + 1, dport=443,
                                      chksum=1)
                first = self.member(make(FIRST, identity,
                                         transport=transport))
                self.assertEqual(first, self.member(make(LATER, identity)))
                self.assertEqual(first, self.member(make(LATER, identity)))
                self.assertEqual(443, first[0].port)
                seen.add(first[1])
            self.assertGreater(len(seen), 4)

    def test_the_first_goes_like_a_whole_packet(self):
        for make, header in ((four, cases.ip4), (six, cases.ip6)):
            for port in range(1, 30):
                transport = cases.udp(sport=port, chksum=1)
                self.assertEqual(
                    self.member(header() / cases.udp(sport=port)),
                    self.member(make(FIRST, port, transport=transport)))

    def test_later_fragment_is_carried_whole_in_an_outer_header(self):
        self.member(four(FIRST))
        packet = four(LATER)
        packet = packet.__class__(bytes(packet))
        result = self.forwarded(cases.link() / packet)
        address = result.service.members[result.member].address
        self.assertEqual(
            bytes(cases.outer4(packet, cases.compared.text(address)) /
                  packet).hex(), result.frame.hex())

    def test_later_fragments_go_by_addresses_without_the_first(self):
        """By addresses, to the service with the lowest port."""
        for make in (four, six):
            seen = set()
            for identity in range(1, 30):
                client = (f'198.51.100.{identity}' if make is four else
                          f'2001:db8:c::{identity}')
                first = self.member(make(LATER, identity, client),
                                    remarks=[Outcome.FRAGMENT_GUESSED])
                second = self.member(make(LATER, identity + 100, client),
                                     remarks=[Outcome.FRAGMENT_GUESSED])
                self.assertEqual(first, second)
                self.assertEqual(80, first[0].port)
                seen.add(first[1])
            self.assertGreater(len(seen), 4)

    def test_other_packets_entries_are_not_taken(self):
        """Source, destination, id and protocol must all be the first's."""
        for make in (four, six):
            self.member(make(FIRST, 5))
            guessed = [Outcome.FRAGMENT_GUESSED]
            self.member(make(LATER, 6), remarks=guessed)
            self.member(make(LATER, 5, protocol=state.TCP), remarks=guessed)
            client = ('198.51.100.8' if make is four else '2001:db8:c::8')
            self.member(make(LATER, 5, client), remarks=guessed)

    def test_later_fragments_without_service_are_dropped(self):
        for packet in (four(LATER, protocol=state.SCTP),
                       six(LATER, protocol=state.SCTP)):
            self.dropped(cases.link() / packet, Outcome.DROP_FRAGMENT)

    def test_fragments_of_protocols_without_services_pass(self):
        for packet in (four(LATER, protocol=50), four(LATER, protocol=1),
                       six(LATER, protocol=58), six(LATER, protocol=50),
                       four(FIRST, protocol=1), six(FIRST, protocol=58)):
            self.passed(cases.link() / packet)
        for packet in (four(LATER, protocol=4), four(FIRST, protocol=47),
                       six(LATER, protocol=41)):
            self.dropped(cases.link() / packet, Outcome.DROP_TUNNEL)

    def test_later_fragments_leave_a_member_that_is_down(self):
        _, address = self.member(four(FIRST))
        gone = [member for other in self.services.values()
                for member in other.members.values()
                if member.address == address]
        for member in gone:
            member.healthy = False
        self.compared.set_health(gone)
        _, other = self.member(four(LATER),
                               remarks=[Outcome.FRAGMENT_GUESSED])
        self.assertNotEqual(address, other)

    def test_fragments_obey_martian_and_network_rules(self):
        self.dropped(cases.link() / four(LATER, client='127.0.0.1'),
                     Outcome.DROP_MARTIAN)
        service = self.services[cases.VIP4, state.UDP, 80]
        self.member(four(FIRST))
        service.allowed = [(cases.compared.packed('10.0.0.0'), 8)]
        self.compared.set_service(service, list(service.members.values()))
        for identity in (1, 2):
            self.dropped(cases.link() / four(LATER, identity),
                         Outcome.DROP_NOT_ALLOWED)
        self.dropped(cases.link() / four(FIRST), Outcome.DROP_NOT_ALLOWED)

    def test_header_behind_the_fragment_header(self):
        """Then all fragments name that header, and not UDP."""
        options = inet6.IPv6ExtHdrDestOpt(options=[inet6.PadN(
            optdata=bytes(4))])
        first = (cases.ip6() / inet6.IPv6ExtHdrFragment(nh=60, id=3, m=1) /
                 options / cases.udp(chksum=1) / cases.payload(48))
        later = (cases.ip6() / inet6.IPv6ExtHdrFragment(
            nh=60, id=3, offset=8) / cases.payload(24))
        self.assertEqual(self.member(first), self.member(later))

    def test_two_fragment_headers(self):
        self.dropped(
            cases.link() / cases.ip6() /
            inet6.IPv6ExtHdrFragment(nh=44, id=3, m=1) /
            inet6.IPv6ExtHdrFragment(nh=17, id=3, m=1) / cases.udp(),
            Outcome.DROP_MALFORMED)

    def test_dscp_keeps_later_fragments_whole(self):
        """There is no checksum in them that could be corrected."""
        for vip, make in ((cases.VIP4, four), (cases.VIP6, six)):
            self.services[vip, state.UDP, 80].encapsulation = (
                cases.Encapsulation.DSCP)
            self.services[vip, state.UDP, 80].dscp = 9
            self.compared.set_service(
                self.services[vip, state.UDP, 80],
                [state.Member(cases.compared.packed(
                    MEMBERS4[0] if make is four else MEMBERS6[0]))])
            self.member(make(FIRST))
            result = self.forwarded(cases.link() / make(LATER))
            self.assertEqual(bytes(cases.payload(40)), result.frame[-40:])
