# SPDX-License-Identifier: Apache-2.0
"""Verdicts of what was really measured, on a shared machine under load.

samples/datapath.json has nanoseconds a packet of two builds, round by round in
turn, by "make bench-datapath"'s program with shorter measurements: ten pairs
of runs of one commit, and one pair in which the second build did 20 ns of busy
work for each packet.
"""

import json
import pathlib

from bench.results import model
from bench.results import verdict
from octavia_xdp_provider.tests.unit import base

SAMPLES = pathlib.Path(__file__).parent / 'samples/datapath.json'

# Less than what a program that is loaded again may differ from itself.
FINE = verdict.Interest(0.03, {'ns': 3.0})


class TestRecorded(base.TestCase):

    def setUp(self):
        super().setUp()
        self.recorded = json.loads(SAMPLES.read_text())

    def compare(self, pair, interest, drifts=None):
        return verdict.compare([
            tuple(model.Case(name, 'ns', model.LOWER, [
                float(value) for value in sides[side]])
                for side in ('before', 'after'))
            for name, sides in pair.items()], interest, drifts)

    def test_ten_pairs_of_one_commit_are_the_same(self):
        self.assertEqual(10, len(self.recorded['same']))
        for number, pair in enumerate(self.recorded['same']):
            changes = self.compare(pair, verdict.Interest())
            self.assertEqual(2, len(changes))
            self.assertEqual(verdict.SAME, verdict.overall(changes), number)

    def test_finer_differences_are_not_made_up(self):
        """Where these need more rounds, that is what is said."""
        same = 0
        for pair in self.recorded['same']:
            for change in self.compare(pair, FINE):
                self.assertNotEqual(verdict.CHANGED, change.verdict)
                same += change.verdict == verdict.SAME
                if change.verdict == verdict.UNKNOWN:
                    rounds = len(change.before.samples)
                    self.assertGreater(change.rounds_needed or 1000, rounds)
        self.assertGreaterEqual(same, 10)

    def test_nor_is_any_pair_of_runs_of_different_times(self):
        """Rounds that do not belong to each other, minutes apart."""
        pairs = self.recorded['same']
        for first in pairs:
            for second in pairs:
                mixed = {name: {'before': sides['before'],
                                'after': second[name]['after']}
                         for name, sides in first.items()}
                self.assertNotEqual(verdict.CHANGED, verdict.overall(
                    self.compare(mixed, verdict.Interest(), {})))

    def test_twenty_nanoseconds_a_packet_are_a_change(self):
        for interest in verdict.Interest(), FINE:
            changes = self.compare(self.recorded['busy'], interest)
            self.assertEqual(3, len(changes))
            for change in changes:
                self.assertEqual((verdict.CHANGED, verdict.WORSE),
                                 (change.verdict, change.direction))
                nanoseconds = (change.interval.estimate
                               * sorted(change.before.samples)[
                                   len(change.before.samples) // 2])
                self.assertLess(15, nanoseconds)
                self.assertLess(nanoseconds, 30)

    def test_and_better_the_other_way_round(self):
        swapped = {name: {'before': sides['after'], 'after': sides['before']}
                   for name, sides in self.recorded['busy'].items()}
        self.assertEqual({verdict.BETTER}, {
            change.direction
            for change in self.compare(swapped, verdict.Interest())})
