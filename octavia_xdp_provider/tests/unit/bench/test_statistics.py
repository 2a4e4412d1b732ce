# SPDX-License-Identifier: Apache-2.0
import json
import random

from bench import errors
from bench.results import model
from bench.results import statistics
from bench.results import suite_json
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bench import results


class TestMedian(base.TestCase):

    def test_interval_is_of_order_statistics(self):
        median = statistics.median([float(value) for value in range(20)])
        # Binomial: 5 of 20 tails or fewer have a probability of 0.0207.
        self.assertEqual((9.5, 5.0, 14.0),
                         (median.estimate, median.low, median.high))
        self.assertAlmostEqual(0.9586, median.confidence, 4)

    def test_few_rounds_say_how_sure_they_are(self):
        self.assertEqual(0.0, statistics.median([3.0]).confidence)
        self.assertEqual(0.9375, statistics.median([1.0] * 5).confidence)
        self.assertRaises(errors.BenchError, statistics.median, [])

    def test_intervals_enclose_the_median_as_often_as_they_say(self):
        """The distribution is skewed, and its median is known."""
        source = random.Random(1)
        hits = 0
        for _ in range(1000):
            median = statistics.median(
                [source.expovariate(1) for _ in range(9)])
            hits += median.low <= 0.6931 <= median.high
        self.assertGreater(hits, 940)


class TestVersus(base.TestCase):

    def test_over_one_is_better_for_us_whatever_the_unit(self):
        ours, peers = [200.0] * 6, [100.0] * 6
        for better, ratio in ((model.HIGHER, 2.0), (model.LOWER, 0.5)):
            ratio_to_peer = statistics.versus(
                'haproxy', results.case(samples=ours, better=better),
                results.case(samples=peers, better=better))
            self.assertAlmostEqual(ratio, ratio_to_peer.ratio)
            self.assertAlmostEqual(ratio, ratio_to_peer.low)
            self.assertAlmostEqual(ratio, ratio_to_peer.high)

    def test_rounds_are_compared_with_their_neighbours(self):
        """All of one round may be half as fast: the ratio is not."""
        ratio = statistics.versus(
            'ipvs', results.case(samples=[30.0, 15.0, 30.0, 15.0, 30.0, 15.0]),
            results.case(samples=[10.0, 5.0, 10.0, 5.0, 10.0, 5.0]))
        self.assertAlmostEqual(3.0, ratio.low)
        self.assertAlmostEqual(3.0, ratio.high)

    def test_what_has_no_ratio_is_refused(self):
        for case in (results.case(unit='s'), results.case(samples=[0.0]),
                     results.case(samples=[]), results.case('other')):
            self.assertRaises(errors.BenchError, statistics.versus, 'ipvs',
                              results.case(), case)


class TestSuiteJson(base.TestCase):

    def test_figures_and_marks(self):
        run = results.run(
            results.case(samples=[1.0, 2.0, 4.0]),
            results.case('other', samples=[], marks=['not installed']),
            versus=[model.Versus('ipvs', 'rate', 1.5, 1.2, 1.7)])
        made = json.loads(suite_json.text_of(run))
        measured, missing = made['cases']
        self.assertEqual(
            {'name': 'rate/ipip/64', 'unit': 'packets/s', 'value': 2.0,
             'low': 1.0, 'high': 4.0, 'rounds': 3, 'marks': [],
             'software': 'xdp', 'better': 'higher', 'confidence': 0.75},
            measured)
        self.assertEqual((None, None, None, 0, ['not installed']), (
            missing['value'], missing['low'], missing['high'],
            missing['rounds'], missing['marks']))
        self.assertEqual([{'peer': 'ipvs', 'case': 'rate', 'ratio': 1.5,
                           'low': 1.2, 'high': 1.7}], made['versus'])
        self.assertEqual('c0ffee', made['commit'])
