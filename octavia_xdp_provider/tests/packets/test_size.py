# SPDX-License-Identifier: Apache-2.0
"""Packets that do not fit the path, and segment sizes."""

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2
from scapy.packet import Raw

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support.cases import Action
from octavia_xdp_provider.tests.packets.support.cases import Encapsulation
from octavia_xdp_provider.tests.packets.support.cases import Outcome

# (encapsulation, member, bytes of the outer header)
OVERHEADS = (
    (Encapsulation.IPIP, cases.MEMBER4, 20),
    (Encapsulation.IPIP, cases.MEMBER6, 40),
    (Encapsulation.GUE, cases.MEMBER4, 28),
    (Encapsulation.GUE, cases.MEMBER6, 48),
    (Encapsulation.GRE, cases.MEMBER4, 24),
    (Encapsulation.GRE, cases.MEMBER6, 44),
    (Encapsulation.GENEVE, cases.MEMBER4, 36),
    (Encapsulation.GENEVE, cases.MEMBER6, 56),
    (Encapsulation.SRV6, cases.MEMBER6, 40),
    (Encapsulation.DSCP, None, 0))


def sized4(length: int, flags: str = 'DF', **fields):
    return cases.ip4(flags=flags, **fields) / cases.tcp() / cases.payload(
        length - 40)


def sized6(length: int):
    return cases.ip6() / cases.tcp() / cases.payload(length - 60)


def back(*vlans):
    packet = l2.Ether(dst=cases.ROUTER_MAC, src=cases.NODE_MAC)
    for vlan in vlans:
        packet /= l2.Dot1Q(vlan=vlan)
    return packet


def answer4(packet, mtu: int, quoted: int = 520):
    """RFC 1191, from the VIP."""
    return (inet.IP(src=cases.VIP4, dst=packet.src, id=0, ttl=64, tos=0xc0) /
            inet.ICMP(type=3, code=4, nexthopmtu=mtu) /
            Raw(bytes(packet)[:quoted]))


def answer6(packet, mtu: int, quoted: int = 1232):
    return (inet6.IPv6(src=cases.VIP6, dst=packet.src, hlim=64, tc=0xc0,
                       nh=58) /
            inet6.ICMPv6PacketTooBig(mtu=mtu) / Raw(bytes(packet)[:quoted]))


class TestTooBig(cases.PacketCase):

    def setUp(self):
        super().setUp()
        self.use(cases.plain_node(icmp_rate=1000))

    def answered(self, packet, expected):
        self.check(packet, Action.TX, Outcome.SENT_TOO_BIG, expected)

    def test_answer_names_the_limit_of_each_encapsulation(self):
        for vip, make, answer in ((cases.VIP4, sized4, answer4),
                                  (cases.VIP6, sized6, answer6)):
            for encapsulation, member, overhead in OVERHEADS:
                member = member or (cases.MEMBER4 if make is sized4 else
                                    cases.MEMBER6)
                service = self.service(vip, members=[member],
                                       encapsulation=encapsulation,
                                       dscp=int(overhead == 0))
                limit = cases.MTU - overhead
                result = self.forwarded(cases.link() / make(limit))
                self.assertEqual(14 + cases.MTU, len(result.frame))
                packet = make(limit + 1)
                self.answered(cases.link() / packet,
                              back() / answer(packet, limit))
                self.compared.delete_service(service)

    def test_tags_stay_on_the_way_back(self):
        self.service()
        self.service(cases.VIP6)
        for vlans in ((5,), (5, 6)):
            packet = sized4(1481)
            self.answered(cases.link(*vlans) / packet,
                          back(*vlans) / answer4(packet, 1480))
            packet = sized6(1461)
            self.answered(cases.link(*vlans) / packet,
                          back(*vlans) / answer6(packet, 1460))

    def test_answer_names_the_limit_of_the_members_path(self):
        for mtu, limit in ((1400, 1380), (9000, 1480), (0, 1480)):
            service = self.service(members=[state.Member(
                compared.packed(cases.MEMBER4), mtu=mtu)])
            self.forwarded(cases.link() / sized4(limit))
            packet = sized4(limit + 1)
            self.answered(cases.link() / packet,
                          back() / answer4(packet, limit))
            self.compared.delete_service(service)

    def test_quotes_of_packets_below_1280_bytes(self):
        """The frame ends within the word behind what is quoted, or all of the
        packet is quoted and nothing is behind it."""
        for encapsulation, member, mtu, most in (
                (Encapsulation.GUE, cases.MEMBER6, 1280, 1232),
                (Encapsulation.IPIP, cases.MEMBER4, 1000, 980)):
            service = self.service(
                cases.VIP6, encapsulation=encapsulation,
                members=[state.Member(compared.packed(member), mtu=mtu)])
            self.forwarded(cases.link() / sized6(most))
            for length in range(most + 1, most + 9):
                packet = sized6(length)
                self.answered(cases.link() / packet,
                              back() / answer6(packet, 1280))
            self.compared.delete_service(service)

    def test_quote_of_a_packet_shorter_than_the_limit(self):
        """The packet is shorter than what may be quoted."""
        self.service(members=[state.Member(
            compared.packed(cases.MEMBER4), mtu=600)])
        packet = sized4(581)
        self.answered(cases.link() / packet, back() / answer4(packet, 580))
        self.service(cases.VIP6, members=[state.Member(
            compared.packed(cases.MEMBER6), mtu=1280)])
        packet = sized6(1241)
        self.answered(cases.link() / packet,
                      back() / answer6(packet, 1280, 1232))

    def test_ipv6_answers_name_at_least_1280(self):
        self.service(cases.VIP6, members=[state.Member(
            compared.packed(cases.MEMBER6), mtu=1300)])
        packet = sized6(1270)
        self.answered(cases.link() / packet, back() / answer6(packet, 1280))

    def test_no_answer_about_an_mtu_below_576(self):
        """An MTU below 576 is not worth an answer."""
        self.service(members=[state.Member(
            compared.packed(cases.MEMBER4), mtu=595)])
        self.dropped(cases.link() / sized4(576), Outcome.DROP_TOO_BIG)

    def test_packets_without_df_are_dropped_or_passed(self):
        self.service()
        packet = cases.link() / sized4(1481, flags='')
        self.dropped(packet, Outcome.DROP_TOO_BIG)
        self.node.pass_too_big = True
        self.compared.set_node()
        self.check(packet, Action.PASS, Outcome.PASSED_TOO_BIG, packet)
        # with DF the client is still answered
        packet = sized4(1481)
        self.answered(cases.link() / packet, back() / answer4(packet, 1480))

    def test_passed_syn_is_untouched(self):
        self.use(cases.plain_node(pass_too_big=True, clamp_mss=True))
        self.service()
        packet = (cases.link() / cases.ip4() /
                  cases.tcp(flags='S', options=[('MSS', 1460)]) /
                  cases.payload(1500))
        self.check(packet, Action.PASS, Outcome.PASSED_TOO_BIG, packet)

    def test_only_fragments_that_allow_an_answer_get_one(self):
        self.service(protocol=state.UDP)
        self.service(cases.VIP6, state.UDP)
        for flags in ('MF', 'MF+DF'):
            self.dropped(
                cases.link() / cases.ip4(flags=flags) /
                cases.udp(chksum=1) / cases.payload(1456),
                Outcome.DROP_TOO_BIG)
        self.dropped(
            cases.link() / cases.ip4(flags='DF', frag=7, proto=17) /
            cases.payload(1464), Outcome.DROP_TOO_BIG)
        # IPv6: the first fragment says who sent it
        packet = (cases.ip6() / inet6.IPv6ExtHdrFragment(nh=17, m=1, id=1) /
                  cases.udp(chksum=1) / cases.payload(1408))
        self.answered(cases.link() / packet, back() / answer6(packet, 1460))
        self.dropped(
            cases.link() / cases.ip6() /
            inet6.IPv6ExtHdrFragment(nh=17, offset=9, id=1) /
            cases.payload(1416), Outcome.DROP_TOO_BIG)

    def test_padding_counts_towards_the_size(self):
        """It leaves with the packet."""
        self.service()
        packet = inet.IP(bytes(sized4(1470)))  # its length is fixed by that
        self.forwarded(cases.link() / packet / Raw(bytes(10)))
        self.answered(cases.link() / packet / Raw(bytes(11)),
                      back() / answer4(packet, 1480))

    def test_missing_next_hop_is_reported_before_the_size(self):
        self.use(cases.plain_node(icmp_rate=100, uplinks=[]))
        self.service()
        self.dropped(cases.link() / sized4(1500), Outcome.DROP_NO_NEXT_HOP)


class TestSegmentSize(cases.PacketCase):

    def setUp(self):
        super().setUp()
        self.use(cases.plain_node(clamp_mss=True))

    def both(self, before, after, family: int = 4, **fields):
        """SYN with options `before` leaves with `after`."""
        fields = {'flags': 'S', **fields}
        make, outer = ((cases.ip4, cases.outer4) if family == 4 else
                       (cases.ip6, cases.outer6))
        sent = make() / cases.tcp(options=before, **fields)
        expected = bytes(make() / cases.tcp(options=after, **fields))
        result = self.forwarded(cases.link() / sent)
        header = len(outer(sent))
        self.assertEqual(expected.hex(), result.frame[header:].hex())

    def test_segment_size_leaves_room_for_each_outer_header(self):
        for vip, headers in ((cases.VIP4, 40), (cases.VIP6, 60)):
            for encapsulation, member, overhead in OVERHEADS:
                if encapsulation == Encapsulation.DSCP:
                    continue
                service = self.service(vip, members=[member],
                                       encapsulation=encapsulation)
                most = cases.MTU - overhead - headers
                make = cases.ip4 if headers == 40 else cases.ip6
                for size in (536, most, most + 1, 1460, 8960, 65535):
                    sent = make() / cases.tcp(flags='S',
                                              options=[('MSS', size)])
                    left = bytes(make() / cases.tcp(
                        flags='S', options=[('MSS', min(size, most))]))
                    result = self.forwarded(cases.link() / sent)
                    self.assertEqual(left.hex(),
                                     result.frame[-len(left):].hex())
                self.compared.delete_service(service)

    def test_segment_size_of_dscp_follows_the_members_path(self):
        """Nothing is added, so only the member's path counts."""
        self.service(encapsulation=Encapsulation.DSCP, dscp=4,
                     members=[state.Member(compared.packed(cases.MEMBER4),
                                           mtu=1400)])
        expected = (l2.Ether(dst=cases.GATEWAY4_MAC, src=cases.NODE_MAC) /
                    cases.ip4(dst=cases.MEMBER4, tos=16) /
                    cases.tcp(flags='S', options=[('MSS', 1360)]))
        self.forwarded(cases.link() / cases.ip4() /
                       cases.tcp(flags='S', options=[('MSS', 1460)]),
                       expected)

    def test_segment_size_follows_the_members_path(self):
        self.service(members=[state.Member(compared.packed(cases.MEMBER4),
                                           mtu=1300)])
        self.both([('MSS', 1460)], [('MSS', 1240)])

    def test_segment_size_is_found_among_other_options(self):
        self.service()
        stamp, scale = ('Timestamp', (1, 0)), ('WScale', 7)
        nop, sack = ('NOP', None), ('SAckOK', b'')
        for place in ((), (nop,), (nop, nop), (nop, nop, nop),
                      (stamp,), (nop, stamp), (sack, nop), (scale,),
                      (nop,) * 9):
            self.both([*place, ('MSS', 1460), scale],
                      [*place, ('MSS', 1440), scale])

    def test_walk_through_options_ends_in_time(self):
        """After ten options, at the end of options, at nonsense."""
        self.service()
        nop = ('NOP', None)
        size = ('MSS', 1460)
        for options in ([nop] * 10 + [size], [('EOL', None), size],
                        [(254, b''), nop]):
            self.both(options, options)
        raw = (cases.link() / cases.ip4() /
               cases.tcp(flags='S', options=[size]))
        for at, value in ((0, 1), (0, 9), (1, 0), (1, 1), (1, 3), (1, 5),
                          (1, 255)):
            frame = bytearray(bytes(raw))
            if at == 0:
                # another kind with a length that jumps over the MSS
                frame[54:58] = bytes((value, 3, 2, 4))
            else:
                frame[54 + at] = value
            result = self.forwarded(Raw(bytes(frame)))
            self.assertEqual(bytes(frame[14:]).hex(),
                             result.frame[34:].hex())

    def test_data_offset_beyond_the_packet_changes_nothing(self):
        self.service()
        sent = cases.ip4() / cases.tcp(flags='S', dataofs=15,
                                       options=[('MSS', 1460)])
        result = self.forwarded(cases.link() / sent)
        self.assertEqual(bytes(sent).hex(), result.frame[34:].hex())

    def test_segment_size_is_clamped_in_opening_packets_only(self):
        self.service()
        for flags in ('A', 'SA', 'SR', 'SF', 'PA', 'R'):
            self.both([('MSS', 1460)], [('MSS', 1460)], flags=flags)
        for flags in ('SEC', 'SP', 'SU'):
            self.both([('MSS', 1460)], [('MSS', 1440)], flags=flags)

    def test_segment_sizes_stay_when_clamping_is_off(self):
        self.node.clamp_mss = False
        self.compared.set_node()
        self.service()
        self.both([('MSS', 1460)], [('MSS', 1460)])
