# SPDX-License-Identifier: Apache-2.0
"""Leases: one owner at a time, by the database's time."""

import itertools
from unittest import mock

from octavia_xdp_provider.controller.store import leases
from octavia_xdp_provider.tests.unit.controller import base


class Leases(base.StoreTestCase):

    def setUp(self):
        super().setUp()
        self.hold_time()
        self.store.nodes.register('a')

    def acquire(self, owner):
        return self.store.leases.acquire('duty', owner, 10)

    def write(self, token, condition='live'):
        self.store.nodes.set_conditions({'a': condition}, 'duty', token)

    def test_owner_renews_its_lease(self):
        token = self.acquire('one')
        for _ in range(5):
            self.now += 9
            self.assertIsNone(self.acquire('other'))
            self.assertEqual(token, self.acquire('one'))
        self.assertEqual(('one', 10.0), self.store.leases.get('duty'))
        self.write(token)
        self.assertEqual({'a': 'live'}, self.store.nodes.conditions())

    def test_expired_lease_is_taken_over(self):
        first = self.acquire('one')
        self.now += 10.1
        self.assertIsNone(self.store.leases.get('duty'))
        second = self.acquire('other')
        self.assertGreater(second, first)
        self.assertIsNone(self.acquire('one'))
        self.write(second)

    def test_clock_of_a_host_does_not_matter(self):
        wild = itertools.cycle((0.0, 9e9))
        with mock.patch('time.time', side_effect=lambda: next(wild)), (
                mock.patch('time.monotonic', side_effect=lambda: next(wild))):
            first = self.acquire('one')
            for _ in range(4):
                self.assertIsNone(self.acquire('other'))
                self.assertEqual(first, self.acquire('one'))
            self.now += 10.1
            self.assertEqual(first + 1, self.acquire('other'))

    def test_suspended_owner_writes_nothing(self):
        first = self.acquire('one')
        self.now += 10.1
        self.assertRaises(leases.LeaseLost, self.write, first)
        second = self.acquire('other')
        self.write(second, 'silent')
        self.assertRaises(leases.LeaseLost, self.write, first)
        self.assertEqual({'a': 'silent'}, self.store.nodes.conditions())
        self.assertEqual(set(), self.store.work.marked(['lb']))

    def test_returning_owner_has_another_token(self):
        first = self.acquire('one')
        self.now += 10.1
        self.acquire('other')
        self.now += 10.1
        third = self.acquire('one')
        self.assertEqual(first + 2, third)
        self.assertRaises(leases.LeaseLost, self.write, first)
        self.write(third)

    def test_released_lease_is_free_at_once(self):
        first = self.acquire('one')
        self.store.leases.resign('duty', 'other')
        self.assertIsNone(self.acquire('other'))
        self.store.leases.resign('duty', 'one')
        self.assertGreater(self.acquire('other'), first)
        self.assertRaises(leases.LeaseLost, self.write, first)

    def test_leases_of_other_names_are_independent(self):
        self.acquire('one')
        self.assertEqual(1, self.store.leases.acquire('else', 'other', 10))
        self.assertRaises(leases.LeaseLost, self.store.nodes.set_conditions,
                          {'a': 'live'}, 'else', 2)
