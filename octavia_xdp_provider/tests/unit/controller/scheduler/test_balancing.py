# SPDX-License-Identifier: Apache-2.0
"""Load and spread become even, with a real database and simulated nodes."""

from unittest import mock

from octavia_xdp_provider.controller.scheduler import balancing
from octavia_xdp_provider.tests.unit.controller.scheduler import simulated


class TestRebalance(simulated.SchedulerTestCase):

    OPTIONS = 'replicas = 1\nrebalance_moves_max = 2\n'

    def test_new_node_gets_its_share_step_by_step(self):
        self.report('a')
        self.duty.step()
        self.create(8)
        self.run_passes('a')
        for _ in range(26):
            self.run_passes('a', 'b', passes=1)
            self.assertLessEqual(self.store.balance.moves_under_way(1), 2)
        self.assertEqual({'a': 4, 'b': 4}, {
            host: count + count % 2 for host, count in self.counts().items()})

    def test_reports_are_not_read_if_the_load_is_even(self):
        self.report('a', 'b')
        self.duty.step()
        self.create(4)
        self.run_passes('a', 'b')
        with mock.patch.object(self.store.nodes, 'all',
                               side_effect=AssertionError):
            self.assertIsNone(
                balancing.Balancing(self.scheduler).rebalance())

    def test_only_applied_load_balancers_are_movable(self):
        self.create(3)
        for key, hosts in (('lb0', 'a'), ('lb1', 'ab'), ('lb2', 'a')):
            self.store.placements.place(key, hosts)
        self.report('a')
        self.store.placements.place('lb2', [], ['a'])
        self.assertEqual(['lb0'], [
            row.id for row in self.store.balance.movable('a', 'b', 1, 9)])
        self.store.load_balancers.change('lb0', lambda document: document)
        self.assertEqual([], self.store.balance.movable('a', 'b', 1, 9))


class TestZones(simulated.SchedulerTestCase):

    OPTIONS = ('replicas = 2\nspread_moves_max = 2\nsettle_time = 0\n'
               'rebalance_moves_max = 0\nremoval_budget_min = 100\n')
    NUMBER = 6

    def setUp(self):
        super().setUp()
        for host in ('a1', 'a2', 'b1', 'b2'):
            self.store.nodes.register(host, zone=host[0])
        self.report('a1', 'a2', 'b1', 'b2')
        self.duty.step()
        self.create(self.NUMBER)
        self.run_passes('a1', 'a2', 'b1', 'b2')
        self.assertEqual({'ab': self.NUMBER}, self.spread())

    def spread(self):
        """Return zones of the nodes of a load balancer → how many have these.
        """
        zones = {}
        for host, keys in self.on().items():
            for key in keys:
                zones[key] = zones.get(key, '') + host[0]
        placed = [''.join(sorted(names)) for names in zones.values()]
        return {names: placed.count(names) for names in placed}

    def test_zone_that_comes_back_gets_its_load_balancers_again(self):
        self.run_passes('b1', 'b2', passes=10, step_s=5)
        self.assertEqual({'bb': self.NUMBER}, self.spread())
        self.run_passes('a1', 'a2', 'b1', 'b2', passes=1)
        # No more at a time than the option says; they are added first.
        self.assertEqual({'abb': 2, 'bb': self.NUMBER - 2}, self.spread())
        for _ in range(20):
            self.run_passes('a1', 'a2', 'b1', 'b2', passes=1)
            self.assertLessEqual(self.store.balance.moves_under_way(2), 2)
        self.assertEqual({'ab': self.NUMBER}, self.spread())

    def test_mending_waits_until_nodes_have_settled(self):
        self.OPTIONS = self.OPTIONS.replace('settle_time = 0',
                                            'settle_time = 60')
        self.start_controller()
        self.run_passes('b1', 'b2', passes=25, step_s=5)
        self.assertEqual({'bb': self.NUMBER}, self.spread())
        # Only one of two has come back, and the other may follow.
        self.run_passes('a1', 'b1', 'b2', passes=10, step_s=5)
        self.assertEqual({'bb': self.NUMBER}, self.spread())
        self.run_passes('a1', 'b1', 'b2', passes=25, step_s=5)
        self.assertEqual({'ab': self.NUMBER}, self.spread())

    def test_node_that_gets_another_zone_is_seen(self):
        self.store.nodes.set_zone('a1', 'b')
        self.store.nodes.set_zone('b1', 'a')
        self.run_passes('a1', 'a2', 'b1', 'b2', passes=40)
        on = self.on()
        self.assertEqual(set(), on['a1'] & on['b2'] | on['a2'] & on['b1'])

    def test_node_that_fails_is_not_tried_again_and_again(self):
        self.store.nodes.set_in_service('a2', False)
        self.run_passes('a1', 'a2', 'b1', 'b2', passes=8)
        self.store.nodes.set_in_service('a1', False)
        self.run_passes('a1', 'a2', 'b1', 'b2', passes=8)
        self.assertEqual({'bb': self.NUMBER}, self.spread())
        self.store.nodes.set_in_service('a1', True)
        removed = self.store.placements.removals_since(600)
        self.run_passes('a1', 'a2', 'b1', 'b2', passes=40, step_s=3,
                        failing=('a1',))
        self.assertEqual({'bb': self.NUMBER}, self.spread())
        self.assertEqual(self.NUMBER,
                         self.store.placements.removals_since(600) - removed)

    def test_nothing_is_moved_with_0(self):
        self.run_passes('b1', 'b2', passes=10, step_s=5)
        self.OPTIONS = self.OPTIONS.replace('spread_moves_max = 2',
                                            'spread_moves_max = 0')
        self.start_controller()
        self.run_passes('a1', 'a2', 'b1', 'b2', passes=20)
        self.assertEqual({'bb': self.NUMBER}, self.spread())


class TestRequired(simulated.SchedulerTestCase):

    OPTIONS = 'replicas = 2\nspread = require\nsettle_time = 0\n'

    def test_load_balancer_has_fewer_nodes_until_a_zone_is_there(self):
        for host in ('a1', 'a2'):
            self.store.nodes.register(host, zone='a')
        self.report('a1', 'a2')
        self.duty.step()
        self.create(3)
        self.run_passes('a1', 'a2')
        self.assertEqual(3, sum(self.counts().values()))
        self.placed.clear()
        self.run_passes('a1', 'a2', passes=8, step_s=5)
        self.assertEqual([], self.placed, 'no node could serve them')
        self.store.nodes.register('b1', zone='b')
        self.run_passes('a1', 'a2', 'b1')
        self.assertEqual(3, self.counts()['b1'])


class TestLookingAgain(simulated.SchedulerTestCase):

    OPTIONS = 'replicas = 2\nrebalance_moves_max = 1\n'

    def test_load_that_cannot_be_even_is_looked_at_seldom(self):
        for host in ('a1', 'a2', 'a3', 'a4', 'b1'):
            self.store.nodes.register(host, zone=host[0])
        hosts = ('a1', 'a2', 'a3', 'a4', 'b1')
        self.report(*hosts)
        self.duty.step()
        self.create(8)
        self.run_passes(*hosts)
        balancer = balancing.Balancing(self.scheduler)
        self.assertIsNone(balancer.rebalance())
        with mock.patch.object(self.store.nodes, 'all',
                               side_effect=AssertionError):
            self.assertIsNone(balancer.rebalance())
        self.now += 11
        with mock.patch.object(self.store.nodes, 'all',
                               side_effect=ZeroDivisionError):
            self.assertRaises(ZeroDivisionError, balancer.rebalance)
