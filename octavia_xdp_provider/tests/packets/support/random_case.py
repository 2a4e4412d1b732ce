# SPDX-License-Identifier: Apache-2.0
"""The program against the model, with random frames, while the node changes.

OCTAVIA_XDP_MUTATION_SECONDS: how long; OCTAVIA_XDP_MUTATION_COUNT: so many
frames in place of a time. OCTAVIA_XDP_MUTATION_SEED repeats what a difference
named, else seeds are drawn. A seed stands for STEPS steps: a change of the
configuration and some frames.
"""

import math
import os
import random
import sys
import time
import unittest

from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import compared
from octavia_xdp_provider.tests.packets.support import nat_scenario
from octavia_xdp_provider.tests.packets.support import scenario

PREFIX = 'OCTAVIA_XDP_MUTATION_'
PATIENCE = 300  # seconds until chance has brought what is WANTED


def setting(name: str) -> int | None:
    value = os.environ.get(PREFIX + name)
    return None if value is None else int(value)


class RandomCase(unittest.TestCase):

    KIND: type[compared.Compared] = compared.Compared
    STEPS = 100
    PART = 1.0  # of the seconds
    # Outcomes and remarks that must occur, and values that look() adds.
    WANTED: frozenset = frozenset()

    def setUp(self):
        super().setUp()
        # A small memory, so that flows compete for places in it.
        self.compared = self.KIND(cases.plain_node(), flows_max=64)
        self.addCleanup(self.compared.close)
        self.seen: set[object] = set()
        self.run_frames = self.compared.run
        self.compared.run = self.run_and_look

    def run_and_look(self, frames):
        results = self.run_frames(frames)
        for result in results:
            self.look(result)
        return results

    def look(self, result):
        self.seen.update((result.outcome, *result.remarks))

    def start(self, seed: int, batch: int) -> scenario.Scenario:
        return scenario.Scenario(self.compared, seed, batch)

    def is_done(self, end: float) -> bool:
        count = setting('COUNT')
        if count is not None:
            return self.compared.ran >= count
        now = time.monotonic()
        return now > end + PATIENCE or (
            now > end and self.seen >= self.WANTED)

    def run_scenario(self, seed: int, end: float = math.inf,
                     batch: int = scenario.BATCH):
        step = 0
        try:
            running = self.start(seed, batch)
            while step < self.STEPS and (
                    end == math.inf or not self.is_done(end)):
                running.step()
                step += 1
        except nat_scenario.Interrupted:
            return
        except compared.Difference as difference:
            if batch > 1 and isinstance(difference,
                                        compared.OutcomeDifference):
                # again, a frame at a time, to see which one it is
                self.run_scenario(seed, batch=1)
            raise AssertionError(
                f'{PREFIX}SEED={seed}, step {step}:\n{difference}'
                ) from difference
        self.compared.compare_counters()
        self.assertEqual('', self.compared.datapath.verify())

    def test_program_and_model_agree_on_random_frames(self):
        seed = setting('SEED')
        if seed is not None:
            self.run_scenario(seed)
            return
        seconds = setting('SECONDS')
        end = time.monotonic() + self.PART * (
            60 if seconds is None else seconds)
        while not self.is_done(end):
            self.run_scenario(random.randrange(1 << 32), end)
        if setting('COUNT') is None:
            self.assertLessEqual(self.WANTED, self.seen)
        print(f'{self.compared.ran} frames without a difference',
              file=sys.stderr)
