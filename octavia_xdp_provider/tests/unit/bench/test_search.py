# SPDX-License-Identifier: Apache-2.0
"""A search ends, and reports nothing that its trials did not confirm."""

import math
import random

import hypothesis
from hypothesis import strategies

from bench import errors
from bench.search import goal
from bench.search import load
from bench.search import rate
from octavia_xdp_provider.tests.support import untimed
from octavia_xdp_provider.tests.unit import base

LOW, HIGH = 1e3, 1e7


class Device:
    """Loses what is above its threshold; a stray packet at times.

    :param reach: packets/s of the generator.
    :param noise: probability that a trial loses a packet, whatever its rate.
    :param disturbed: probability that a trial says nothing.
    """

    def __init__(self, threshold, reach=math.inf, noise=0.0, disturbed=0.0,
                 seed=0):
        self.threshold, self.reach = threshold, reach
        self.noise, self.disturbed = noise, disturbed
        self.random = random.Random(seed)
        self.trials = []

    def measure(self, asked, seconds):
        sending = min(asked, self.reach)
        sent = max(1, round(sending * seconds))
        lost = max(0, round((sending - self.threshold) * seconds))
        if self.random.random() < self.noise:
            lost = min(sent, lost + 1)
        disturbed = ('other load' if self.random.random() < self.disturbed
                     else None)
        trial = goal.Trial(asked, seconds, sent, min(lost, sent), disturbed)
        self.trials.append(trial)
        return trial

    def counted(self, asked):
        return [trial for trial in self.trials if trial.asked == asked and
                trial.disturbed is None and trial.rate >= 0.99 * asked]


devices = strategies.builds(
    Device, threshold=strategies.floats(1.0, 2 * HIGH),
    reach=strategies.one_of(strategies.just(math.inf),
                            strategies.floats(1.0, 2 * HIGH)),
    noise=strategies.floats(0, 1), disturbed=strategies.floats(0, 1),
    seed=strategies.integers(0, 2 ** 32))
goals = strategies.builds(
    goal.Goal, loss_ratio=strategies.sampled_from([0.0, 0.001, 0.1]),
    exceed_ratio=strategies.sampled_from([0.0, 0.3, 0.5, 0.9]),
    sum_seconds=strategies.sampled_from([1.0, 2.0, 3.0, 7.5]),
    width=strategies.sampled_from([1e-9, 0.001, 0.01, 0.3]),
    retries=strategies.integers(0, 4), trials_max=strategies.integers(1, 200))


class TestSearch(base.TestCase):

    def search(self, device, **fields):
        wanted = goal.Goal(**fields)
        return rate.search(device.measure, LOW, HIGH, wanted)

    @untimed.settings
    @hypothesis.given(devices, goals)
    def test_it_ends_and_reports_only_what_was_confirmed(self, device, wanted):
        result = rate.search(device.measure, LOW, HIGH, wanted)

        self.assertTrue(result.trials == len(device.trials) <=
                        wanted.trials_max)
        if result.rate is None:
            self.assertTrue(any('no rate was confirmed' in mark
                                for mark in result.marks))
            return
        self.assertTrue(LOW <= result.rate <= HIGH)
        counted = load.Load(result.rate, device.counted(result.rate))
        self.assertIs(load.Verdict.LOWER, counted.verdict(wanted))
        self.assertEqual(counted.seconds, result.confirming_seconds)
        self.assertTrue(result.upper is None or result.rate < result.upper)
        good = [trial for trial in counted.trials
                if trial.loss_ratio <= wanted.loss_ratio]
        self.assertGreaterEqual(len(good), len(counted.trials) *
                                (1 - wanted.exceed_ratio))

    @untimed.settings
    @hypothesis.given(strategies.floats(1.1 * LOW, 0.9 * HIGH))
    def test_a_threshold_is_found_within_the_width(self, threshold):
        result = self.search(Device(threshold))

        # A packet a second is the least that can be lost.
        self.assertLessEqual(result.rate, threshold + 1)
        self.assertGreaterEqual(result.rate, threshold * 0.985 - 2, result)
        self.assertLessEqual(threshold, result.upper)
        self.assertEqual([], result.marks)
        self.assertEqual(result.rate, result.forwarded)
        self.assertLess(result.trials, 60, result)

    @untimed.settings
    @hypothesis.given(strategies.floats(1.2 * LOW, 0.5 * HIGH),
                      strategies.integers(0, 2 ** 32))
    def test_a_stray_loss_does_not_end_the_search_too_low(self, threshold,
                                                          seed):
        device = Device(threshold, noise=0.1, seed=seed)
        result = self.search(device, sum_seconds=9.0)

        self.assertLessEqual(result.rate, threshold + 1)
        # A tenth, as the search promises, and what rounding adds to it.
        self.assertGreaterEqual(result.rate, 0.899 * threshold, result)
        lossy = sum(trial.lost > 0 for trial in device.counted(result.rate))
        self.assertEqual(bool(lossy), any('lost more' in mark
                                          for mark in result.marks))

    @untimed.settings
    @hypothesis.given(strategies.floats(2 * LOW, 0.9 * HIGH))
    def test_a_generator_that_is_too_slow_confirms_nothing_above(self, reach):
        device = Device(2 * HIGH, reach=reach)
        result = self.search(device)

        self.assertIsNone(result.upper)
        self.assertTrue(0.9 * reach < result.rate <= reach / 0.99)
        self.assertTrue(any('generator reached' in mark
                            for mark in result.marks))

    def test_no_loss_at_the_greatest_rate_is_marked(self):
        result = self.search(Device(2 * HIGH))

        self.assertEqual((HIGH, None), (result.rate, result.upper))
        self.assertEqual([f'no loss at {HIGH:.0f} packets/s, the greatest '
                          'rate tried'], result.marks)

    def test_a_device_that_loses_always_has_no_rate(self):
        result = self.search(Device(2 * HIGH, noise=1.0))

        self.assertEqual((None, 0.0, LOW), (result.rate, result.lower,
                                            result.upper))
        self.assertIsNone(result.forwarded)

    def test_nothing_but_disturbed_trials_confirm_nothing(self):
        result = self.search(Device(HIGH, disturbed=1.0))

        self.assertIsNone(result.rate)
        self.assertIn('disturbed: other load', result.marks)

    def test_a_refuted_rate_below_a_confirmed_one_is_marked(self):
        lost = {HIGH: 0, HIGH / 2: 5}

        def measure(asked, seconds):
            return goal.Trial(asked, seconds, int(asked * seconds),
                              lost.get(asked, 0))

        searched = rate._Search(measure, LOW, HIGH, goal.Goal())
        for asked in (HIGH / 4, HIGH / 2, HIGH):
            searched._try(asked)

        result = searched._result()
        self.assertEqual((HIGH / 4, HIGH / 2), (result.rate, result.upper))
        self.assertTrue(any('not steady' in mark for mark in result.marks))

    def test_with_loss_allowed_it_is_what_came_through_that_counts(self):
        result = self.search(Device(1e5), loss_ratio=0.1)

        self.assertTrue(1e5 < result.rate <= 1e5 / 0.9 + 1)
        self.assertTrue(0.98e5 < result.forwarded <= 1e5 + 1)

    def test_bounds_that_are_none_are_refused(self):
        for low, high in ((0, 1), (2, 1), (1, 1), (1, math.inf),
                          (math.nan, 1)):
            self.assertRaises(errors.BenchError, rate.search,
                              Device(1).measure, low, high)

    def test_a_trial_that_lost_more_than_it_sent_is_refused(self):
        self.assertRaises(errors.BenchError, goal.Trial, 1.0, 1.0, 1, 2)
        self.assertRaises(errors.BenchError, goal.Trial, 1.0, 0.0, 1, 0)
