# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.controller.scheduler import rebalance
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller.scheduler import base
from octavia_xdp_provider.tests.unit.controller.scheduler.base import balancer
from octavia_xdp_provider.tests.unit.controller.scheduler.base import placed


class TestRebalance(unit.TestCase):

    def extremes(self, counts, **more):
        conditions = more.pop('conditions', dict.fromkeys(counts, base.LIVE))
        hosts = rebalance.extremes(base.cluster(conditions, [
            placed(host, f'lb{number}') for host, count in counts.items()
            for number in range(count)], **more))
        return hosts and tuple(host.name for host in hosts)

    def test_fullest_gives_to_emptiest(self):
        self.assertEqual(('b', 'c'), self.extremes({'a': 5, 'b': 9, 'c': 1}))

    def test_small_differences_are_ignored(self):
        self.assertIsNone(self.extremes({'a': 1, 'b': 2}))
        self.assertEqual(('b', 'a'), self.extremes({'a': 1, 'b': 3}))
        self.assertIsNone(self.extremes({'a': 97, 'b': 100}))

    def test_single_node_moves_nothing(self):
        self.assertIsNone(self.extremes({'a': 9}))
        self.assertIsNone(self.extremes({'a': 9, 'b': 0}, conditions={
            'a': base.LIVE, 'b': base.SILENT}))

    def test_full_node_gets_no_moves(self):
        decider = base.decider('abc', reports={
            'c': {'services': 9, 'services_max': 9}})
        movable = [(balancer('x'), ['a', 'b'])]
        target = decider.cluster.hosts
        self.assertIsNone(rebalance.move(decider, movable, target['c']))
        self.assertEqual(
            ('x', {'a', 'b'}, ('d',)),
            self.move(base.decider('abd'), movable, 'd'))

    @staticmethod
    def move(decider, movable, host):
        move = rebalance.move(decider, movable, decider.cluster.hosts[host])
        return move.load_balancer_id, set(move.decided_on), move.add
