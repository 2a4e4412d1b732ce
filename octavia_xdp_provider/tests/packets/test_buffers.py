# SPDX-License-Identifier: Apache-2.0
"""Frames of several buffers: what happens to a packet does not depend on how
a driver splits its frame.
"""

import unittest

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.tests.models.packet_model import icmp
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import random_case
from octavia_xdp_provider.tests.packets.support import split_frames

Outcome = state.Outcome


class FirstBuffer(compared.Compared):
    """The first `length` bytes of each frame are in one buffer."""

    length = 0

    def first_buffer(self, frame):
        return self.length


class TestHeadersInLaterBuffers(unittest.TestCase):
    """Headers behind the first buffer, and behind what is pulled there."""

    def setUp(self):
        super().setUp()
        self.compared = FirstBuffer(cases.plain_node(
            echo=True, icmp_rate=1000), flows_max=64)
        self.addCleanup(self.compared.close)
        self.compared.set_service(
            state.Service(compared.packed(cases.VIP6), state.TCP, cases.PORT),
            [state.Member(compared.packed(cases.MEMBER6))])

    def outcome(self, packet, first: int) -> Outcome:
        self.compared.length = first
        while not (results := self.compared.run([bytes(packet)])):
            pass  # the clock ticked amid it
        return results[0].outcome

    def test_a_transport_header_out_of_reach_is_malformed(self):
        options = inet6.IPv6ExtHdrDestOpt(options=[
            inet6.PadN(optdata=bytes(250))])
        packet = cases.link() / cases.ip6() / options / cases.tcp() / (
            cases.payload(200))
        end = len(cases.link() / cases.ip6() / options / inet.TCP())
        for first, outcome in ((100, Outcome.DROP_MALFORMED),
                               (end - 1, Outcome.DROP_MALFORMED),
                               (end, Outcome.FORWARDED),
                               (0, Outcome.FORWARDED)):
            with self.subTest(first=first):
                self.assertEqual(outcome, self.outcome(packet, first))

    def test_an_icmp_header_out_of_reach_is_malformed(self):
        options = inet6.IPv6ExtHdrDestOpt(options=[
            inet6.PadN(optdata=bytes(250))])
        for message, outcome in ((inet6.ICMPv6EchoRequest(), 'ECHO_REPLY'),
                                 (inet6.ICMPv6Unknown(type=200), 'PASS')):
            packet = cases.link() / cases.ip6() / options / message / (
                cases.payload(200))
            end = len(cases.link() / cases.ip6() / options) + icmp.HEADER
            for first, expected in ((100, 'DROP_MALFORMED'),
                                    (end - 1, 'DROP_MALFORMED'),
                                    (end, outcome), (0, outcome)):
                with self.subTest(message=message, first=first):
                    self.assertEqual(Outcome[expected],
                                     self.outcome(packet, first))

    def test_an_error_whose_quoted_ports_are_out_of_reach_is_of_no_flow(self):
        quote = (inet6.IPv6(src=cases.VIP6, dst=cases.CLIENT6) /
                 inet6.IPv6ExtHdrDestOpt(options=[
                     inet6.PadN(optdata=bytes(150))]) /
                 inet.TCP(sport=cases.PORT, dport=40000))
        packet = (cases.link() / cases.ip6(src='2001:db8:f::9') /
                  inet6.ICMPv6PacketTooBig(mtu=1300) / quote)
        ports = len(packet) - 16
        for first, outcome in ((100, Outcome.DROP_ICMP),
                               (ports - 1, Outcome.DROP_ICMP),
                               (ports, Outcome.FORWARDED),
                               (0, Outcome.FORWARDED)):
            with self.subTest(first=first):
                self.assertEqual(outcome, self.outcome(packet, first))


class TestRandomBuffers(random_case.RandomCase):

    KIND = split_frames.SplitFrames
    PART = 0.5
    # The answer to a too long packet has a checksum over several buffers.
    WANTED = frozenset((Outcome.DROP_MULTI_BUFFER, Outcome.SENT_TOO_BIG,
                        Outcome.ECHO_REPLY))

    def start(self, seed, batch):
        self.compared.rng.seed(seed)
        return super().start(seed, batch)

    def test_program_and_model_agree_on_random_frames(self):
        super().test_program_and_model_agree_on_random_frames()
        self.assertGreater(self.compared.split, self.compared.ran / 2)
