# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.controller.scheduler import rebalance
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller.scheduler import base
from octavia_xdp_provider.tests.unit.controller.scheduler.base import balancer
from octavia_xdp_provider.tests.unit.controller.scheduler.base import placed


class TestRebalance(unit.TestCase):

    def ends(self, counts, **more):
        conditions = more.pop('conditions', dict.fromkeys(counts, base.LIVE))
        found = rebalance.ends(base.cluster(conditions, [
            placed(host, f'lb{number}') for host, count in counts.items()
            for number in range(count)], **more))
        return found and tuple(host.name for host in found)

    def test_the_fullest_gives_to_the_emptiest(self):
        self.assertEqual(('b', 'c'), self.ends({'a': 5, 'b': 9, 'c': 1}))

    def test_a_difference_of_one_or_of_little_is_left_alone(self):
        self.assertIsNone(self.ends({'a': 1, 'b': 2}))
        self.assertEqual(('b', 'a'), self.ends({'a': 1, 'b': 3}))
        self.assertIsNone(self.ends({'a': 97, 'b': 100}))

    def test_one_node_gives_nobody_anything(self):
        self.assertIsNone(self.ends({'a': 9}))
        self.assertIsNone(self.ends({'a': 9, 'b': 0}, conditions={
            'a': base.LIVE, 'b': base.SILENT}))

    def test_a_full_node_is_given_nothing(self):
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
