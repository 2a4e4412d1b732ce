# SPDX-License-Identifier: Apache-2.0
"""Intervals and tests without assumptions, beside those of SciPy."""

import random

import scipy.stats

from bench import errors
from bench.results import rank_sum
from bench.results import sign_test
from octavia_xdp_provider.tests.unit import base


def values(count, seed, centre=0.3):
    source = random.Random(seed)
    return [source.gauss(centre, 1) for _ in range(count)]


class TestSignTest(base.TestCase):

    def test_p_is_that_of_the_binomial_test(self):
        for count in (1, 2, 5, 12, 30):
            sample = values(count, count)
            for side, function in (('greater', sign_test.p_above),
                                   ('less', sign_test.p_below)):
                for bound in (0.0, 0.25, -1.0):
                    expected = scipy.stats.quantile_test(
                        sample, q=bound, p=0.5, alternative=side).pvalue
                    self.assertAlmostEqual(
                        expected, function(sample, bound), 9)

    def test_interval_and_p_never_contradict_each_other(self):
        for seed in range(50):
            sample = values(9, seed)
            interval = sign_test.interval(sample, 0.95)
            for bound in (-0.2, 0.0, 0.1):
                self.assertEqual(interval.low > bound,
                                 sign_test.p_above(sample, bound) <= 0.025)
                self.assertEqual(interval.high < bound,
                                 sign_test.p_below(sample, bound) <= 0.025)

    def test_few_values_say_how_little_their_extremes_enclose(self):
        for count, confidence in ((1, 0.0), (2, 0.5), (5, 0.9375)):
            sample = values(count, 1)
            interval = sign_test.interval(sample, 0.95)
            self.assertEqual((min(sample), max(sample), confidence), (
                interval.low, interval.high, interval.confidence))
        self.assertGreaterEqual(
            sign_test.interval(values(6, 1), 0.95).confidence, 0.95)

    def test_a_quarter_of_the_values_may_be_anything(self):
        sample = [0.01 * index for index in range(-8, 9)] + [9.0] * 5
        interval = sign_test.interval(sample, 0.95)
        self.assertEqual(0.025, round(interval.estimate, 9))
        self.assertLess(interval.high, 0.1)

    def test_equal_values_are_above_nothing_that_equals_them(self):
        self.assertEqual(1.0, sign_test.p_above([2.0] * 10, 2.0))
        self.assertAlmostEqual(2.0 ** -10,
                               sign_test.p_above([2.0] * 10, 1.9))

    def test_no_rounds(self):
        self.assertRaises(errors.BenchError, sign_test.interval, [], 0.95)


class TestRankSum(base.TestCase):

    def test_p_is_that_of_mann_and_whitney(self):
        for first, second in ((1, 3), (5, 5), (6, 9), (9, 6), (25, 30)):
            before, after = values(first, 1, 0), values(second, 2)
            for side, function in (('greater', rank_sum.p_above),
                                   ('less', rank_sum.p_below)):
                for bound in (0.0, 0.5):
                    expected = scipy.stats.mannwhitneyu(
                        [value - bound for value in after], before,
                        alternative=side, method='exact').pvalue
                    self.assertAlmostEqual(
                        expected, function(before, after, bound), 9)

    def test_interval_is_of_after_less_before(self):
        before, after = values(20, 1, 0), values(20, 2, 5)
        interval = rank_sum.interval(before, after, 0.95)
        self.assertLess(4, interval.low)
        self.assertLess(interval.high, 6)
        self.assertGreaterEqual(interval.confidence, 0.95)

    def test_number_of_rounds_has_limits(self):
        for first, second in ((0, 5), (5, 0), (1000, 501)):
            error = self.assertRaises(
                errors.BenchError, rank_sum.interval, [1.0] * first,
                [1.0] * second, 0.95)
            self.assertIn(f'{first} and {second} rounds', str(error))
