# SPDX-License-Identifier: Apache-2.0

import random

from octavia_xdp_provider.controller import placement
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base


def balancer(key='lb', generation=1, deleted=False, **flavor):
    document = dict(base.document(), flavor=flavor)
    return rows.LoadBalancer(key, document, generation, 0, 0, (), deleted,
                                0.0)


def placed(host, key='lb', synced=1, error=None, removed=None):
    return rows.Placement(key, host, synced, error, removed)


class TestPlan(base.TestCase):

    def plan(self, balancers, placements, eligible, replicas=2):
        return placement.plan(balancers, placements, set(eligible), replicas)

    def test_new_load_balancer_goes_to_the_emptiest_nodes(self):
        self.assertEqual(
            [placement.Move('lb', ('b', 'c'), ())],
            self.plan([balancer()], [placed('a', 'other')], 'abc'))

    def test_enough_nodes_are_left_as_they_are(self):
        self.assertEqual([], self.plan(
            [balancer()], [placed('a'), placed('b')], 'abc'))

    def test_replicas_of_the_flavor_go_before_the_default(self):
        self.assertEqual(
            [placement.Move('lb', ('a', 'b', 'c'), ())],
            self.plan([balancer(replicas=3)], [], 'abc'))

    def test_with_fewer_nodes_all_of_them_are_used(self):
        self.assertEqual([placement.Move('lb', ('a',), ())],
                         self.plan([balancer()], [], 'a'))
        self.assertEqual([], self.plan([balancer()], [placed('a')], 'a'))

    def test_dead_node_is_replaced_first_and_removed_later(self):
        dead = placed('dead')
        self.assertEqual(
            [placement.Move('lb', ('b',), ())],
            self.plan([balancer()], [placed('a'), dead], 'ab'))
        self.assertEqual(
            [], self.plan([balancer()],
                          [placed('a'), dead, placed('b', synced=0)], 'ab'))
        self.assertEqual(
            [placement.Move('lb', (), ('dead',))],
            self.plan([balancer()],
                      [placed('a'), dead, placed('b')], 'ab'))

    def test_failing_replacement_does_not_count(self):
        self.assertEqual([], self.plan(
            [balancer()], [placed('a'), placed('dead'),
                           placed('b', error='no')], 'ab'))

    def test_dead_node_without_replacement_keeps_the_vip(self):
        self.assertEqual([], self.plan(
            [balancer()], [placed('a'), placed('dead')], 'a'))

    def test_fewer_replicas_after_a_change(self):
        moves = self.plan([balancer(replicas=1)],
                          [placed('a'), placed('b')], 'ab')
        self.assertEqual(1, len(moves[0].remove))

    def test_a_deleted_load_balancer_is_left_alone(self):
        self.assertEqual([], self.plan([balancer(deleted=True)], [], 'ab'))

    def test_load_is_spread_and_the_plan_is_stable(self):
        rng = random.Random(7)
        hosts = [f'n{i}' for i in range(5)]
        balancers = [balancer(f'lb{i}') for i in range(50)]
        placements = []
        for _ in range(3):
            rng.shuffle(balancers)
            for move in self.plan(balancers, placements, hosts):
                self.assertEqual((), move.remove)
                placements += [placed(host, move.load_balancer_id)
                               for host in move.add]
        counts = [sum(row.host == host for row in placements)
                  for host in hosts]
        self.assertEqual([20] * 5, counts)
