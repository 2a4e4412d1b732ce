# SPDX-License-Identifier: Apache-2.0
"""Times of readings, counts, and the end of the command."""

from octavia_xdp_provider.drops import rows
from octavia_xdp_provider.drops import watch
from octavia_xdp_provider.tests.unit import base

STACK = rows.Row(rows.KERNEL, 'NO_SOCKET')
DATAPATH = rows.Row(rows.DATAPATH, 'NO_MEMBER')
HOST = rows.Row(rows.HOST, 'NO_TAP')


class Clock:
    """A clock, and the event that ends the command at a given time."""

    def __init__(self, end=None):
        self.now = 1000.0
        self.end = end
        self.late = 0.0

    def __call__(self):
        return self.now

    def wait(self, seconds):
        if self.end is not None and self.now + seconds >= 1000 + self.end:
            self.now = 1000 + self.end
            return True
        self.now += seconds + self.late
        return False


class Source:

    def __init__(self, row, step, start=0, vips=()):
        self.row = row
        self.step = step
        self.count = start
        self.addresses = [set(reading) for reading in vips]
        self.watched = []

    def read(self):
        result = {self.row: self.count}
        self.count += self.step
        return result

    def vips(self):
        if len(self.addresses) > 1:
            return self.addresses.pop(0)
        return self.addresses[0]

    def watch(self, vips):
        self.watched.append(set(vips))

    def missed(self):
        return self.count // 10


class View:

    def __init__(self):
        self.readings = []

    def start(self, vips, sources):
        self.started = set(vips), sources

    def refresh(self, lost, seconds, missed, vips):
        self.readings.append((
            round(seconds, 3), missed,
            {row.source: (packets, total) for row, packets, total in lost}))

    def end(self, why, seconds, total):
        self.ended = why, round(seconds, 3), total


class WatchTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.view = View()
        self.clock = Clock()
        self.kernel = Source(STACK, 5, start=5)
        self.datapath = Source(DATAPATH, 2, start=100, vips=[['a']])

    def run_with(self, interval_s=1.0, sources=None, vips=None, **more):
        sources = sources or {'kernel': self.kernel, 'datapath': self.datapath}
        watch.Watch(self.view, **sources, vips=vips, clock=self.clock).run(
            self.clock, interval_s, **more)

    def test_count_ends_after_that_many_readings(self):
        self.run_with(count=2)
        # The datapath's first 100 were lost before the start.
        self.assertEqual(
            [(1.0, 1, {'kernel': (5, 5), 'datapath': (2, 2)}),
             (1.0, 0, {'kernel': (5, 10), 'datapath': (2, 4)})],
            self.view.readings)
        self.assertEqual(('count', 2.0, 15), self.view.ended)
        self.assertEqual(({'a'}, ['kernel', 'xdp', 'datapath']),
                         self.view.started)

    def test_duration_ends_within_an_interval(self):
        self.run_with(duration_s=2.5)
        self.assertEqual([1.0, 1.0, 0.5],
                         [seconds for seconds, *_ in self.view.readings])
        self.assertEqual('duration', self.view.ended[0])

    def test_signal_causes_a_last_reading(self):
        self.clock.end = 1.25
        self.run_with()
        self.assertEqual([1.0, 0.25],
                         [seconds for seconds, *_ in self.view.readings])
        self.assertEqual(('signal', 1.25), self.view.ended[:2])

    def test_signal_before_the_first_interval_causes_a_reading(self):
        self.clock.end = 0
        self.run_with()
        self.assertEqual([watch.SHORTEST_S],
                         [seconds for seconds, *_ in self.view.readings])

    def test_readings_do_not_drift(self):
        self.clock.late = 0.125
        self.run_with(count=4)
        self.assertEqual(1000 + 4 + 0.125, self.clock.now)

    def test_vips_of_the_node_are_followed(self):
        self.datapath.addresses = [{'a'}, {'a', 'b'}, {'b'}]
        self.run_with(count=3)
        self.assertEqual([{'a'}, {'a', 'b'}, {'b'}], self.kernel.watched)

    def test_given_vips_are_not_followed(self):
        self.run_with(count=2, vips=['c'])
        self.assertEqual([{'c'}, {'c'}], self.kernel.watched)
