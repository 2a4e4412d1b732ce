# SPDX-License-Identifier: Apache-2.0
"""Checksums that come out as 0 or 0xffff, for all that is rewritten."""

import functools

from scapy import utils
from scapy.layers import inet
from scapy.layers import inet6
from scapy.packet import Raw

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import checksums
from octavia_xdp_provider.tests.packets.support.cases import Action
from octavia_xdp_provider.tests.packets.support.cases import Encapsulation
from octavia_xdp_provider.tests.packets.support.cases import Outcome
from octavia_xdp_provider.tests.packets.support.checksums import added
from octavia_xdp_provider.tests.packets.support.checksums import CHECKSUM
from octavia_xdp_provider.tests.packets.support.checksums import ChecksumCase
from octavia_xdp_provider.tests.packets.support.checksums import HEADER
from octavia_xdp_provider.tests.packets.support.checksums import is_right
from octavia_xdp_provider.tests.packets.support.checksums import VIPS

MEMBERS = {4: cases.MEMBER4, 6: cases.MEMBER6}


def with_id(head, word: int):
    head.id = word
    return head


class TestTunnels(ChecksumCase):

    def test_outer_header_of_each_encapsulation(self):
        for encapsulation in (Encapsulation.IPIP, Encapsulation.GUE,
                              Encapsulation.GRE, Encapsulation.GENEVE):
            self.use(cases.plain_node())
            self.service(members=[cases.MEMBER4],
                         encapsulation=encapsulation)
            for _ in range(checksums.ROUNDS):
                seen = self.zero(functools.partial(
                    lambda head, word: with_id(head, word) / cases.tcp(),
                    self.head(4)), 10)
                self.assertEqual(0, utils.checksum(seen[:20]))

    def test_carried_packets_of_zero_sums_stay(self):
        """Inner checksums are not touched, whatever they are."""
        for encapsulation in set(Encapsulation) - {Encapsulation.DSCP}:
            member = (cases.MEMBER6 if encapsulation == Encapsulation.SRV6
                      else cases.MEMBER4)
            self.use(cases.plain_node())
            for family in (4, 6):
                self.service(VIPS[family], state.UDP, [member],
                             encapsulation=encapsulation)
                for check in (0, 0xffff):
                    packet = bytes(self.head(family) / cases.udp(
                        chksum=check) / Raw(self.data()))
                    again = (inet.IP if family == 4 else inet6.IPv6)(packet)
                    self.assertEqual(packet,
                                     self.leaves(again)[-len(packet):])


class TestRewriting(ChecksumCase):
    """DSCP: another destination and class in the client's own packet."""

    def setUp(self):
        super().setUp()
        for family, vip in VIPS.items():
            for protocol in (state.TCP, state.UDP):
                self.service(vip, protocol, [MEMBERS[family]], dscp=41,
                             encapsulation=Encapsulation.DSCP)

    def test_rewritten_ipv4_header_checksum_may_become_0(self):
        self.zeroes(4, lambda head, data, word:
                    with_id(head, word) / cases.tcp(), 10)

    def test_rewritten_tcp_checksum_may_become_0(self):
        for family in (4, 6):
            self.zeroes(family, lambda head, data, word:
                        head / cases.tcp(window=word) / data,
                        HEADER[family] + CHECKSUM[state.TCP])

    def test_udp_is_never_sent_with_0(self):
        """It would say that there is no checksum."""
        for family in (4, 6):
            self.zeroes(family, lambda head, data, word: head / cases.udp() /
                        Raw(word.to_bytes(2, 'big')) / data,
                        HEADER[family] + CHECKSUM[state.UDP], 0xffff)

    def test_rewritten_icmpv6_checksum_may_become_0(self):
        """Only ICMPv6's checksum covers the addresses."""
        quote = (inet6.IPv6(src=cases.VIP6, dst=cases.CLIENT6) /
                 inet.TCP(sport=cases.PORT, dport=5000))
        self.zeroes(6, lambda head, data, word: head /
                    inet6.ICMPv6PacketTooBig(mtu=0x10000 + word) / quote,
                    HEADER[6] + CHECKSUM[state.ICMPV6])

    def test_wrong_checksums_stay_wrong(self):
        """By as much as they were, for the member to see."""
        for family in (4, 6):
            for wrong in (1, 0x8000, 0xfffe):
                packet = bytearray(bytes(
                    self.head(family) / cases.tcp() / Raw(self.data())))
                at = HEADER[family] + CHECKSUM[state.TCP]
                right = int.from_bytes(packet[at:at + 2], 'big')
                packet[at:at + 2] = added(right, wrong).to_bytes(2, 'big')
                link = bytes(cases.link())[:12] + (
                    b'\x08\0' if family == 4 else b'\x86\xdd')
                seen = bytearray(self.run_one(
                    Raw(link + packet)).frame[14:])
                self.assertFalse(is_right(bytes(seen), family))
                now = int.from_bytes(seen[at:at + 2], 'big')
                seen[at:at + 2] = added(now, 0xffff - wrong).to_bytes(
                    2, 'big')
                self.assertTrue(is_right(bytes(seen), family))


class TestAnswers(ChecksumCase):

    def setUp(self):
        super().setUp()
        for vip in VIPS.values():
            self.service(vip)

    def test_ipv4_header_of_echo_replies(self):
        self.zeroes(4, lambda head, data, word:
                    with_id(head, word) / inet.ICMP(), 10,
                    outcome=Outcome.ECHO_REPLY)

    def test_echo_reply_checksum_may_become_0(self):
        self.zeroes(4, lambda head, data, word:
                    head / inet.ICMP(id=word) / data, HEADER[4] + 2,
                    outcome=Outcome.ECHO_REPLY)
        self.zeroes(6, lambda head, data, word:
                    head / inet6.ICMPv6EchoRequest(id=word) / data,
                    HEADER[6] + 2, outcome=Outcome.ECHO_REPLY)

    def test_messages_that_are_too_big(self):
        """They quote a word that makes their checksum 0."""
        for family in (4, 6):
            self.zeroes(family, lambda head, data, word: head /
                        cases.tcp(window=word, chksum=1) / Raw(bytes(1480)),
                        HEADER[family] + 2, outcome=Outcome.SENT_TOO_BIG)

    def test_clamped_segment_sizes(self):
        nop = ('NOP', None)
        for options in ([('MSS', 8960)], [nop, ('MSS', 8960)],
                        [nop, nop, ('MSS', 65535)]):
            for family in (4, 6):
                self.zeroes(family, lambda head, data, word, options=options:
                            head / cases.tcp(flags='S', window=word,
                                             options=options) / data,
                            HEADER[family] + CHECKSUM[state.TCP],
                            outer=HEADER[family])


class TestZeroes(ChecksumCase):
    """Messages of nothing but zeroes, whose checksum is 0xffff."""

    def test_echo_replies_of_zeroes(self):
        self.service()
        for length in (0, 1, 31, 32, 33, 56, 1400):
            packet = cases.ip4() / inet.ICMP(id=0, seq=0) / Raw(
                bytes(length))
            seen = self.leaves(packet, Outcome.ECHO_REPLY)
            self.assertEqual(b'\0\0\xff\xff' + bytes(4 + length), seen[20:])

    def test_the_same_behind_tags_and_before_padding(self):
        self.service()
        frame = bytes(cases.link(5, 6) / cases.ip4() /
                      inet.ICMP(id=0, seq=0)) + b'padding'
        result = self.check(Raw(frame), Action.TX, Outcome.ECHO_REPLY)
        self.assertEqual(b'\0\0\xff\xff' + bytes(4) + b'padding',
                         result.frame[42:])
