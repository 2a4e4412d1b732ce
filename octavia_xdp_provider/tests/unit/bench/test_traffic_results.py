# SPDX-License-Identifier: Apache-2.0
"""From what was sent and received to what is reported."""

import subprocess
from unittest import mock

import hypothesis
from hypothesis import strategies
import numpy

from bench import errors
from bench.traffic import formats
from bench.traffic import generator
from bench.traffic import interface
from bench.traffic import latency
from bench.traffic import losses
from bench.traffic import merge
from bench.traffic import programs
from bench.traffic import results
from bench.traffic import sinks
from octavia_xdp_provider.tests.support import untimed
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bench import profiles

FLOWS = 10
IDENTIFIER = 0x120


def stream(**fields):
    profile = interface.Profile(profiles.to(
        '203.0.113.1', '203.0.113.2'), FLOWS, **fields)
    return profiles.make(profile)


def sent(count, **fields):
    destinations = fields.pop('destinations', [count, 0])
    return results.Sent(**{
        'id': IDENTIFIER, 'sent': count, 'opened': 0, 'refused': 0,
        'last_ns': 10 ** 9, 'complete': True, 'error': 0,
        'destinations': numpy.array(destinations),
        'timeline': numpy.array([count // 2, 0, count - count // 2]),
        **fields})


def received(numbers=(), **fields):
    """By one sink; of a number that is there twice, the second is one."""
    bits = numpy.zeros(8 * (max(numbers, default=-8) // 8 + 1), numpy.uint8)
    bits[list(numbers)] = 1
    return results.Received(**{
        'id': IDENTIFIER, 'received': len(set(numbers)),
        'duplicates': len(numbers) - len(set(numbers)), 'reordered': 0,
        'opened': 0, 'invalid': 0, 'early': 0, 'latency_max': 0,
        'destinations': numpy.zeros(2, int),
        'latencies': numpy.zeros(formats.constants.LATENCY_BUCKETS, int),
        'numbers': numpy.packbits(bits, bitorder='little'), **fields})


def measure(sent_one, *sinks, rate=100.0, foreign=None, one_clock=True,
            **fields):
    part = merge.Part(stream(**fields), sent_one, {
        f'sink{index}': each for index, each in enumerate(sinks)})
    return merge.measurement(
        [part], merge.find_losses([part]),
        {name: results.SinkResult({IDENTIFIER: each}, foreign or {})
         for name, each in part.received.items()}, rate, 1, one_clock)


numbers = strategies.lists(strategies.integers(0, 299), max_size=400)


class TestLosses(base.TestCase):

    @untimed.settings
    @hypothesis.given(strategies.integers(300, 400), numbers, numbers)
    def test_what_is_missing_is_known_exactly(self, count, first, other):
        wanted = stream()
        every = numpy.arange(count)
        flow = losses.flows.flows(every, FLOWS, wanted.seed)
        target = wanted.slots[flow % wanted.slots.size]
        got = numpy.zeros(count, bool)
        got[first + other] = True

        lost = losses.of(
            wanted, sent(count, destinations=numpy.bincount(
                target, minlength=2)), [received(first), received(other)])

        self.assertEqual(int(got.sum()), lost.received)
        self.assertEqual(len(first) + len(other) - int(got.sum()),
                         lost.duplicated)
        self.assertEqual(int((~got).sum()), lost.lost)
        self.assertEqual(len(set(flow[~got])), lost.flows)
        self.assertEqual([int((got & (target == index)).sum())
                          for index in (0, 1)], lost.destinations)
        half = count // 2
        self.assertEqual(
            [(0.0, half, int((~got[:half]).sum())), (0.1, 0, 0),
             (0.2, count - half, int((~got[half:]).sum()))], lost.timeline)


class TestMerge(base.TestCase):

    def test_everything_received_has_no_marks(self):
        measured = measure(sent(100), received(range(60)),
                           received(range(60, 100)))

        self.assertEqual((100, 100, 0, []), (measured.sent, measured.received,
                                             measured.lost, measured.marks))
        self.assertEqual({'sink0': 60, 'sink1': 40}, measured.by_receiver)

    def test_marks(self):
        every = range(100)
        for text, measured in (
                ('rate not reached: 100 of 200',
                 measure(sent(100), received(every), rate=200)),
                ('ended early',
                 measure(sent(100, complete=False), received(every))),
                ("lost at the generator's link, whose queue was full: 5 ",
                 measure(sent(100, refused=5), received(range(95)))),
                ('numbers that were never sent: 3 packets',
                 measure(sent(100), received(every, invalid=3))),
                ('received before they were sent, as the clocks of ',
                 measure(sent(100), received(every, early=4))),
                ('lost packets that open flows: 2 of 10',
                 measure(sent(100, opened=10), received(every, opened=8))),
                ('foreign traffic at sink0: 6 packets (udp)',
                 measure(sent(100), received(every), foreign={'udp': 6})),
                ('not one packet arrived',
                 measure(sent(100), received()))):
            self.assertEqual(1, len(measured.marks), measured.marks)
            self.assertIn(text, measured.marks[0])

    def test_control_traffic_is_foreign_but_no_mark(self):
        measured = measure(sent(100), received(range(100)),
                           foreign={'arp': 1, 'neighbour': 2, 'icmp': 3,
                                    'link': 4, 'bfd': 5, 'tcp': 6, 'udp': 0})

        self.assertEqual((21, []), (measured.foreign, measured.marks))
        self.assertNotIn('udp', measured.foreign_by_kind)

    def test_without_one_clock_there_is_no_latency(self):
        latencies = numpy.zeros(formats.constants.LATENCY_BUCKETS, int)
        latencies[100] = 100
        got = received(range(100), latencies=latencies, latency_max=100)

        self.assertEqual(100.0, measure(sent(100), got).latency_ns['p99'])
        self.assertIsNone(
            measure(sent(100), got, one_clock=False).latency_ns)

    def test_a_clock_that_is_set_is_marked(self):
        def clock(real, monotonic):
            return {'realtime_ns': real, 'monotonic_ns': monotonic}
        before = {'a': clock(10 ** 18, 10 ** 9), 'b': clock(10 ** 18, 0)}
        after = {'a': clock(10 ** 18 + 5 * 10 ** 9, 6 * 10 ** 9),
                 'b': clock(10 ** 18 - 10 ** 9, 10 ** 9)}

        self.assertEqual(['the clock of b was set by -2.000 s'],
                         generator._steps(before, after))


class TestLatency(base.TestCase):

    def test_buckets_follow_each_other_and_are_narrow(self):
        last = -1
        for bucket in range(formats.constants.LATENCY_BUCKETS):
            upper = latency.upper(bucket)
            self.assertGreater(upper, last)
            self.assertLessEqual(upper, max(last + 1, (last + 1) * 1.01))
            last = upper
        self.assertEqual((1 << formats.constants.LATENCY_BITS) - 1, last)

    @untimed.settings
    @hypothesis.given(strategies.lists(
        strategies.integers(0, 5000), min_size=1, max_size=50))
    def test_percentiles_are_those_of_the_values(self, values):
        uppers = [latency.upper(bucket) for bucket in range(
            formats.constants.LATENCY_BUCKETS)]
        counts = numpy.bincount(
            numpy.searchsorted(uppers, values), minlength=len(uppers))

        percentiles = latency.percentiles(counts, max(values))

        for name, share in latency.PERCENTILES:
            exact = numpy.percentile(values, 100 * share,
                                     method='inverted_cdf')
            self.assertTrue(exact <= percentiles[name] <= exact * 1.01, name)
        self.assertEqual(max(values), percentiles['max'])

    def test_of_nothing_there_is_none(self):
        self.assertEqual({}, latency.percentiles(numpy.zeros(10, int), 0))


class Process:

    def __init__(self, answer):
        self.answer = answer

    def line(self, timeout):
        if isinstance(self.answer, str):
            return self.answer
        raise self.answer

    def wait(self, timeout):
        return 3


class Host:
    name = 'host'

    def __init__(self, answer):
        self.answer = answer

    def start(self, arguments, *, log):
        return Process(self.answer)


class TestQuiet(base.TestCase):
    """Sinks are looked at until nothing arrives any more."""

    def wait(self, *totals):
        made = sinks.Sinks.__new__(sinks.Sinks)
        counts = iter(totals)
        host = mock.Mock()
        program = mock.Mock(host=host)
        program.hear.side_effect = lambda: {'7': next(counts)}
        made._programs = {'sink': program}
        return made.wait_until_quiet(), host.run

    def test_six_looks_alike_are_quiet(self):
        quiet, run = self.wait(3, 4, 4, 4, 5, *[5] * 6)
        self.assertTrue(quiet)
        # By the clock of the sink's host.
        self.assertEqual(10, run.call_count)
        run.assert_called_with(['sleep', '0.05'])

    def test_what_never_ends(self):
        quiet, run = self.wait(*range(1000))
        self.assertFalse(quiet)
        self.assertEqual(200, run.call_count)


class TestPrograms(base.TestCase):

    def test_what_goes_wrong_is_said(self):
        for answer, text in (
                ('{"error": "no memory"}', 'no memory'),
                (EOFError(), 'with 3'),
                (subprocess.TimeoutExpired('x', 5), 'says nothing')):
            program = programs.Program(Host(answer), ['p', 'send'], 'log')
            error = self.assertRaises(errors.BenchError, program.hear)
            self.assertIn(text, str(error))
            self.assertIn('host: octavia-xdp-traffic send', str(error))

    def test_a_program_that_is_not_built_is_named(self):
        self.patch(programs, 'PROGRAM', programs.pathlib.Path('/none/such'))

        error = self.assertRaises(errors.BenchError, programs.install, None)

        self.assertIn('make bench-traffic', str(error))
