# SPDX-License-Identifier: Apache-2.0
"""Frames of several buffers: what happens to a packet does not depend on how
a driver splits its frame.
"""

import random
import sys
import time
import unittest

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.packet_model import icmp
from octavia_xdp_provider.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import mutation
from octavia_xdp_provider.tests.packets.support import scenario
from octavia_xdp_provider.tests.packets.support import split_frames

# Of too long packets the answer's checksum is over several buffers.
WANTED = {state.Outcome.DROP_MULTI_BUFFER, state.Outcome.SENT_TOO_BIG,
          state.Outcome.ECHO_REPLY}
PATIENCE = 300
STEPS = 100


class FirstBuffer(compared.Compared):
    """Of each frame the first `length` bytes come in one buffer."""

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

    def outcome(self, packet, first: int) -> state.Outcome:
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
        for first, outcome in ((100, state.Outcome.DROP_MALFORMED),
                               (end - 1, state.Outcome.DROP_MALFORMED),
                               (end, state.Outcome.FORWARDED),
                               (0, state.Outcome.FORWARDED)):
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
                    self.assertEqual(state.Outcome[expected],
                                     self.outcome(packet, first))

    def test_an_error_whose_quoted_ports_are_out_of_reach_is_of_no_flow(self):
        quote = (inet6.IPv6(src=cases.VIP6, dst=cases.CLIENT6) /
                 inet6.IPv6ExtHdrDestOpt(options=[
                     inet6.PadN(optdata=bytes(150))]) /
                 inet.TCP(sport=cases.PORT, dport=40000))
        packet = (cases.link() / cases.ip6(src='2001:db8:f::9') /
                  inet6.ICMPv6PacketTooBig(mtu=1300) / quote)
        ports = len(packet) - 16
        for first, outcome in ((100, state.Outcome.DROP_ICMP),
                               (ports - 1, state.Outcome.DROP_ICMP),
                               (ports, state.Outcome.FORWARDED),
                               (0, state.Outcome.FORWARDED)):
            with self.subTest(first=first):
                self.assertEqual(outcome, self.outcome(packet, first))


class TestRandomBuffers(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.compared = split_frames.SplitFrames(cases.plain_node(),
                                                 flows_max=64)
        self.addCleanup(self.compared.close)

    def run_scenario(self, seed: int, end: float):
        self.compared.rng = random.Random(seed)
        running = scenario.Scenario(self.compared, seed)
        for _ in range(STEPS):
            if time.monotonic() > end:
                break
            try:
                running.step()
            except compared.Difference as difference:
                raise AssertionError(
                    f'{mutation.PREFIX}SEED={seed}:\n{difference}'
                    ) from difference
        self.compared.compare_counters()

    def test_program_and_model_agree_on_split_frames(self):
        end = time.monotonic() + mutation.setting('SECONDS', 30)
        only = mutation.setting('SEED', None)
        # Chance decides what comes, and a node may answer nothing at all.
        while (now := time.monotonic()) < end or (
                now < end + PATIENCE and
                not self.compared.outcomes >= WANTED):
            self.run_scenario(random.randrange(1 << 32) if only is None
                              else only, max(end, now + 5))
            if only is not None:
                return
        self.assertGreater(self.compared.split, self.compared.ran / 2)
        self.assertLessEqual(WANTED, self.compared.outcomes)
        print(f'{self.compared.split} of {self.compared.ran} frames split, '
              'without a difference', file=sys.stderr)
