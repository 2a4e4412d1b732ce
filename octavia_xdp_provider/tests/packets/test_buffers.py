# SPDX-License-Identifier: Apache-2.0
"""Frames of several buffers: what happens to a packet does not depend on how
a driver splits its frame.
"""

import random
import sys
import time
import unittest

from octavia_xdp_provider.packet_model import parse
from octavia_xdp_provider.packet_model import state
from octavia_xdp_provider.tests.packets import test_mutations
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import environment
from octavia_xdp_provider.tests.packets.support import scenario

ETHERNET = 14  # the kernel makes no shorter first buffer
# Behind the transport's offset: a TCP header, or an ICMP error's quote.
TRANSPORT = 128
# Of too long packets the answer's checksum is over several buffers.
WANTED = {state.Outcome.DROP_BUFFERS, state.Outcome.SENT_TOO_BIG,
          state.Outcome.ECHO_REPLY}
PATIENCE = 300


class SplitFrames(compared.Compared):
    """Each frame that may be is split, at random."""

    def __init__(self, node, rng: random.Random, **options):
        self.rng = rng
        self.split = 0
        self.outcomes = set()
        super().__init__(node, **options)

    def first_buffer(self, frame):
        packet = parse.parse(frame)
        end = len(frame)
        if not isinstance(packet, parse.Ignored):
            if packet.wrong is not None or packet.transport > (
                    compared.PULLED - TRANSPORT):
                return 0
            # What is behind the packet stays with its last byte.
            end = packet.end
        if end <= ETHERNET + 1:
            return 0
        self.split += 1
        if self.rng.random() < 0.5:
            end = min(end, 100)
        return self.rng.randrange(ETHERNET, max(end, ETHERNET + 1))

    def run(self, frames):
        results = super().run(frames)
        self.outcomes.update(one.outcome for one in results)
        return results


class TestRandomBuffers(unittest.TestCase):

    def setUp(self):
        super().setUp()
        if environment.MODEL_ONLY:
            self.skipTest('needs the program')
        self.seed = test_mutations.setting('SEED', None)
        if self.seed is None:
            self.seed = random.randrange(1 << 32)
        self.compared = SplitFrames(
            cases.plain_node(), random.Random(self.seed), flows_max=64)
        self.addCleanup(self.compared.close)

    def test_program_and_model_agree_on_split_frames(self):
        end = time.monotonic() + test_mutations.setting('SECONDS', 30)
        running = scenario.Scenario(self.compared, self.seed)
        try:
            # Chance decides what comes; all that is wanted comes in minutes.
            while (now := time.monotonic()) < end or (
                    now < end + PATIENCE and
                    not self.compared.outcomes >= WANTED):
                running.step()
        except compared.Difference as difference:
            raise AssertionError(
                f'OCTAVIA_XDP_MUTATION_SEED={self.seed}:\n{difference}'
                ) from difference
        self.compared.compare_counters()
        self.assertGreater(self.compared.split, self.compared.ran / 2)
        self.assertLessEqual(WANTED, self.compared.outcomes)
        print(f'{self.compared.split} of {self.compared.ran} frames split, '
              'without a difference', file=sys.stderr)
