# SPDX-License-Identifier: Apache-2.0
"""The program against the model, with random and mutated frames.

By default for OCTAVIA_XDP_MUTATION_SECONDS = 60; with
OCTAVIA_XDP_MUTATION_COUNT for so many frames. OCTAVIA_XDP_MUTATION_SEED
repeats what a difference named, else seeds are drawn. A seed stands for
SCENARIO steps: a change of the configuration and a batch of frames.
"""

import collections
import math
import random
import sys
import time
import unittest

from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import environment
from octavia_xdp_provider.tests.packets.support import mutation
from octavia_xdp_provider.tests.packets.support import scenario

STEPS = 100


class TestMutations(unittest.TestCase):

    def setUp(self):
        super().setUp()
        # A small memory, so that flows compete for places in it.
        self.compared = compared.Compared(cases.plain_node(), flows_max=64)
        self.addCleanup(self.compared.close)

    def run_scenario(self, seed: int, batch: int, end: float = math.inf):
        running = scenario.Scenario(self.compared, seed, batch)
        for step in range(STEPS):
            if time.monotonic() > end:
                break
            try:
                running.step()
            except compared.Difference as difference:
                if batch > 1 and isinstance(difference,
                                            compared.OutcomeDifference):
                    # again, a frame at a time, to see which one it is
                    self.run_scenario(seed, 1)
                raise AssertionError(
                    f'{mutation.PREFIX}SEED={seed}, step {step}:\n{difference}'
                    ) from difference
        self.compared.compare_counters()
        self.assertEqual('', self.compared.datapath.verify())

    def test_program_and_model_agree_on_random_frames(self):
        seconds = mutation.setting('SECONDS', 60)
        count = mutation.setting('COUNT', None)
        only = mutation.setting('SEED', None)
        end = time.monotonic() + seconds
        rng = random.Random()
        while True:
            self.run_scenario(only if only is not None else
                              rng.randrange(1 << 32), scenario.BATCH,
                              math.inf if only is not None or count is not None
                              else end)
            if only is not None:
                break
            if count is not None:
                if self.compared.ran >= count:
                    break
            elif time.monotonic() > end:
                break
        print(f'{self.compared.ran} frames without a difference',
              file=sys.stderr)

    @environment.takes_long
    def test_all_outcomes_occur(self):
        """The random traffic reaches every decision."""
        seen = collections.Counter()
        run = self.compared.run

        def counting(frames):
            results = run(frames)
            for one in results:
                seen[one.outcome] += 1
                seen.update(one.remarks)
            return results
        self.compared.run = counting
        missing = set(compared.state.Outcome) - {
            # states that the library never makes
            compared.state.Outcome.DROP_NO_HEADROOM,
            compared.state.Outcome.DROP_INTERNAL,
            # frames of several buffers: test_buffers
            compared.state.Outcome.DROP_MULTI_BUFFER,
            # test_nat, test_nat_peers
            compared.state.Outcome.DROP_NO_NAT_FLOW,
            compared.state.Outcome.DROP_NAT_FULL,
            compared.state.Outcome.DROP_TTL,
            compared.state.Outcome.DROP_NAT_UNTRANSLATABLE,
            compared.state.Outcome.DROP_CONNECTION_LIMIT,
            compared.state.Outcome.SENT_RESET,
            compared.state.Outcome.NAT_EVICTED,
            compared.state.Outcome.NAT_HANDED_ON,
            compared.state.Outcome.DROP_NAT_PEER}
        for seed in range(4):
            self.run_scenario(seed, scenario.BATCH)
            missing -= set(seen)
            if not missing:
                break
        self.assertEqual(set(), missing)
