# SPDX-License-Identifier: Apache-2.0
"""A load balancer is advanced when its last node has reported."""

from unittest import mock

from octavia_xdp_provider.controller import awaited
from octavia_xdp_provider.tests.unit import base


class TestAwaited(base.TestCase):

    def setUp(self):
        super().setUp()
        self.awaited = awaited.Awaited()

    def report(self, host, **generations):
        return self.awaited.reported(host, generations, {
            key: generation for key, generation in generations.items()
            if generation is not None})

    def test_last_of_several_nodes_counts(self):
        self.awaited.expect('lb', 5, ['a', 'b'])
        for _ in range(2):
            self.assertEqual((set(), {'lb'}, set()), self.report('a', lb=5))
        self.assertEqual(({'lb'}, set(), set()), self.report('b', lb=6))
        # Later reports are not awaited.
        self.assertEqual((set(), set(), {'lb'}), self.report('b', lb=6))

    def test_report_of_an_older_generation_does_not_count(self):
        self.awaited.expect('lb', 5, ['a'])
        self.assertEqual((set(), {'lb'}, set()), self.report('a', lb=4))
        self.assertEqual(({'lb'}, set(), set()), self.report('a', lb=5))

    def test_node_without_the_load_balancer_has_reported(self):
        self.awaited.expect('lb', 5, ['a'])
        self.assertEqual(({'lb'}, set(), set()), self.report('a', lb=None))

    def test_wait_for_others_follows_the_nodes_average(self):
        with mock.patch.object(awaited.time, 'monotonic') as clock:
            clock.return_value = 100.0
            self.assertEqual(awaited.OTHERS_S, self.awaited.others_s)
            for generation in range(40):
                self.awaited.expect('lb', generation, ['a'])
                clock.return_value += 1.0
                self.report('a', lb=generation)
            self.assertAlmostEqual(2.0, self.awaited.others_s, 0)
            for generation in range(40, 120):
                self.awaited.expect('lb', generation, ['a'])
                clock.return_value += 0.01
                self.report('a', lb=generation)
            self.assertEqual(awaited.OTHERS_S, self.awaited.others_s)

    def test_newer_change_replaces_an_older_one(self):
        self.awaited.expect('lb', 5, ['a', 'gone'])
        self.awaited.expect('lb', 6, ['a'])
        self.assertEqual(({'lb'}, set(), set()), self.report('a', lb=6))

    def test_load_balancers_are_awaited_independently(self):
        self.awaited.expect('one', 5, ['a'])
        self.awaited.expect('two', 6, ['a', 'b'])
        self.assertEqual(({'one'}, {'two'}, {'other'}),
                         self.report('a', one=5, two=6, other=1))

    def test_silent_node_is_not_awaited_for_ever(self):
        self.awaited.expect('lb', 5, ['a', 'b'])
        with mock.patch.object(awaited.time, 'monotonic',
                               return_value=float('inf')):
            self.assertEqual((set(), set(), {'lb'}), self.report('a', lb=5))

    def test_memory_is_bounded(self):
        with mock.patch.object(awaited, '_MAX', 3):
            for number in range(10):
                self.awaited.expect(f'lb{number}', 1, ['a'])
        self.assertLessEqual(len(self.awaited._changes), 3)
