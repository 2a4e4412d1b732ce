# SPDX-License-Identifier: Apache-2.0
"""Verdicts of samples made for the purpose; test_recorded has real ones."""

import math
import random

from bench.results import model
from bench.results import verdict
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bench import results

INTEREST = verdict.Interest()


def noisy(seed, rounds=20, factor=1.0, noise=0.01):
    """A case before and after on a machine whose speed drifts by 20 % and
    that a neighbour slows to a half in one round of ten, in one of both."""
    source = random.Random(seed)
    before, after = [], []
    for number in range(rounds):
        speed = 1e6 * (1 + 0.2 * math.sin(number / 3))
        for samples, change in (before, 1.0), (after, factor):
            neighbour = 0.5 if source.random() < 0.1 else 1.0
            samples.append(speed * change * neighbour
                           * source.lognormvariate(0, noise))
    return results.case(samples=before), results.case(samples=after)


def judge(before, after, interest=INTEREST, drifts=None):
    return verdict.compare([(before, after)], interest, drifts)[0]


class TestInTurn(base.TestCase):

    def test_same_though_the_machine_drifts(self):
        judged = judge(*noisy(1))
        self.assertEqual(verdict.SAME, judged.verdict)
        self.assertLess(-0.03, judged.interval.low)
        self.assertLess(judged.interval.high, 0.03)

    def test_changed_and_in_which_direction(self):
        for factor, direction in ((0.9, verdict.WORSE), (1.1, verdict.BETTER)):
            judged = judge(*noisy(2, 40, factor=factor))
            self.assertEqual((verdict.CHANGED, direction),
                             (judged.verdict, judged.direction))
        before, after = noisy(2, 40, factor=1.1)
        before.better = after.better = model.LOWER
        self.assertEqual(verdict.WORSE, judge(before, after).direction)

    def test_sure_but_of_no_interest_is_the_same(self):
        judged = judge(*noisy(3, factor=0.99, rounds=60, noise=0.001))
        self.assertLess(judged.interval.high, 0)
        self.assertEqual(verdict.SAME, judged.verdict)

    def test_noise_cannot_be_told_and_names_rounds(self):
        judged = judge(*noisy(2, rounds=8, noise=0.02))
        self.assertEqual(verdict.UNKNOWN, judged.verdict)
        self.assertIn('in the interval', judged.reason)
        self.assertGreater(judged.rounds_needed, 8)
        enough = judge(*noisy(2, rounds=judged.rounds_needed, noise=0.02))
        self.assertLess(enough.interval.high - enough.interval.low,
                        judged.interval.high - judged.interval.low)

    def test_few_rounds_are_never_enough(self):
        for rounds in range(1, 6):
            for factor in (1.0, 2.0):
                judged = judge(*noisy(5, rounds=rounds, factor=factor))
                self.assertEqual(verdict.UNKNOWN, judged.verdict)
                self.assertGreater(judged.rounds_needed or 99, 5)
                self.assertIn('too few rounds', judged.reason)

    def test_at_the_smallest_difference_no_number_of_rounds_does(self):
        before = results.case(samples=[100.0] * 20)
        after = results.case(samples=[102.0, 104.0] * 10)
        judged = judge(before, after)
        self.assertEqual((verdict.UNKNOWN, None),
                         (judged.verdict, judged.rounds_needed))
        self.assertIn('1000 rounds would not do', judged.reason)

    def test_unit_has_a_smallest_difference_of_its_own(self):
        before = results.case(samples=[40.0] * 9, unit='ns', better='lower')
        for more, expected in ((4.0, verdict.SAME), (6.0, verdict.CHANGED)):
            after = results.case(samples=[40.0 + more] * 9, unit='ns',
                                 better='lower')
            self.assertEqual(expected, judge(before, after).verdict)

    def test_zeroes_are_compared_as_they_are(self):
        def lost(*samples):
            return results.case(samples=samples, unit='packets',
                                better='lower')

        none = lost(*[0.0] * 8)
        self.assertEqual(verdict.SAME, judge(none, none).verdict)
        judged = judge(none, lost(5, 3, 8, 9, 4, 6, 7, 5))
        self.assertEqual((verdict.CHANGED, verdict.WORSE, False),
                         (judged.verdict, judged.direction, judged.is_ratio))
        self.assertEqual(5.5, judged.interval.estimate)

    def test_all_of_what_is_wrong_in_one_case_of_forty(self):
        """One change is found among many cases, and nothing else is."""
        pairs = [noisy(number, 40, factor=0.8 if number == 3 else 1.0)
                 for number in range(40)]
        changes = verdict.compare(pairs, INTEREST, None)
        self.assertEqual(
            [3], [number for number, change in enumerate(changes)
                  if change.verdict == verdict.CHANGED])
        self.assertEqual(verdict.CHANGED, verdict.overall(changes))

    def test_false_changes_are_rare(self):
        """At most a few of 400 suites of 10 unchanged cases show a
        change; with single tests one suite in four would."""
        wrong = 0
        for suite in range(400):
            pairs = [noisy(100 * suite + number, rounds=12, noise=0.05)
                     for number in range(10)]
            wrong += verdict.overall(verdict.compare(
                pairs, verdict.Interest(0.0), None)) == verdict.CHANGED
        self.assertLessEqual(wrong, 28)


class TestApart(base.TestCase):

    def test_drift_is_a_part_of_the_interval(self):
        before, after = noisy(1, rounds=40, factor=0.85)
        self.assertEqual(verdict.CHANGED, judge(before, after).verdict)
        judged = judge(before, after, drifts={})
        self.assertEqual((verdict.UNKNOWN, None),
                         (judged.verdict, judged.rounds_needed))
        self.assertIn('not measured in turn', judged.reason)

    def test_large_changes_are_found(self):
        judged = judge(*noisy(1, factor=0.4), drifts={})
        self.assertEqual((verdict.CHANGED, verdict.WORSE),
                         (judged.verdict, judged.direction))

    def test_known_drift_counts_instead(self):
        source = random.Random(1)
        before, after = (
            results.case(samples=[source.gauss(100, 0.5) for _ in range(12)])
            for _ in range(2))
        drifts = {('xdp', before.name): 0.01}
        self.assertEqual(verdict.SAME,
                         judge(before, after, drifts=drifts).verdict)
        self.assertEqual(verdict.UNKNOWN,
                         judge(before, after, drifts={}).verdict)

    def test_runs_with_other_numbers_of_rounds(self):
        before, _after = noisy(1, rounds=10)
        _before, after = noisy(2, rounds=25, factor=3)
        self.assertEqual(verdict.CHANGED,
                         judge(before, after, drifts={}).verdict)


class TestMarks(base.TestCase):

    def test_mark_of_one_leaves_no_verdict(self):
        for factor in (1.0, 0.5):
            before, after = noisy(1, factor=factor)
            after.marks = ['clock stepped: 3 ms']
            judged = judge(before, after)
            self.assertEqual(verdict.UNKNOWN, judged.verdict)
            self.assertIn('clock stepped', judged.reason)
            self.assertIsNotNone(judged.interval)

    def test_same_mark_of_both_does(self):
        before, after = noisy(1)
        before.marks = ['rate not reached: 1 of 2', '17 packets too many']
        after.marks = ['rate not reached: 1 of 3 (round 7)',
                       '1,234 packets too many (round 2)']
        self.assertEqual(verdict.SAME, judge(before, after).verdict)

    def test_what_was_not_measured_says_why(self):
        before, after = noisy(1)
        after.samples, after.marks = [], ['no room: 3 bytes']
        judged = judge(before, after)
        self.assertEqual((verdict.UNKNOWN, None),
                         (judged.verdict, judged.interval))
        self.assertIn('no room', judged.reason)

    def test_other_units_are_not_compared(self):
        before, after = noisy(1)
        after.unit = 's'
        self.assertIn('measured in packets/s and s',
                      judge(before, after).reason)


class TestOverall(base.TestCase):

    def changes(self, *verdicts):
        return [verdict.Change(results.case(), results.case(), each)
                for each in verdicts]

    def test_one_change_is_one_and_same_is_all(self):
        same, changed, unknown = (verdict.SAME, verdict.CHANGED,
                                  verdict.UNKNOWN)
        for verdicts, expected in (
                ((same, same), same), ((same, unknown), unknown),
                ((same, unknown, changed), changed), ((), unknown)):
            self.assertEqual(expected,
                             verdict.overall(self.changes(*verdicts)))
