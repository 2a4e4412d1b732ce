# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.controller.scheduler import rebalance
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller.scheduler import base
from octavia_xdp_provider.tests.unit.controller.scheduler.base import balancer
from octavia_xdp_provider.tests.unit.controller.scheduler.base import placed


class TestRebalance(unit.TestCase):

    def moves(self, placements, hosts='abc', most=1, **more):
        keys = sorted({row.load_balancer_id for row in placements})
        placements_of = {key: [row for row in placements
                               if row.load_balancer_id == key]
                         for key in keys}
        return rebalance.moves(
            base.decider(hosts, placements, **more),
            [balancer(key) for key in keys], placements_of, most)

    @staticmethod
    def full(number, hosts='ab', **more):
        return [placed(host, f'lb{index}', **more)
                for index in range(number) for host in hosts]

    def test_an_empty_node_gets_load_balancers_one_at_a_time(self):
        moves = self.moves(self.full(10))
        self.assertEqual([('c',)], [move.add for move in moves])
        self.assertEqual([{}], [move.remove for move in moves])

    def test_no_more_are_under_way_than_allowed(self):
        self.assertEqual(3, len(self.moves(self.full(10), most=3)))
        under_way = [*self.full(10), placed('c', 'lb0', synced=0)]
        self.assertEqual([], self.moves(under_way))
        self.assertEqual([], self.moves(self.full(10), most=0))

    def test_a_difference_of_one_is_left_alone(self):
        self.assertEqual([], self.moves(
            [placed('a', 'x'), placed('b', 'x')]))

    def test_only_what_is_done_is_moved(self):
        self.assertEqual([], self.moves(self.full(10, synced=0)))
        self.assertEqual([], self.moves(self.full(10, error='no')))

    def test_a_full_node_is_given_nothing(self):
        self.assertEqual([], self.moves(
            self.full(10), reports={'c': {'services': 9,
                                          'services_max': 9}}))

    def test_it_ends_evenly(self):
        placements = self.full(10)
        keys = [f'lb{index}' for index in range(10)]
        made = 0
        while moves := self.moves(placements):
            made += len(moves)
            for move in moves:
                placements += [placed(host, move.load_balancer_id)
                               for host in move.add]
            decider = base.decider('abc', placements)
            for key in keys:
                mine = [row for row in placements
                        if row.load_balancer_id == key]
                move = decider.decide(balancer(key), mine)
                if move:
                    self.assertEqual((), move.add)
                    placements = [
                        row for row in placements
                        if row.load_balancer_id != key
                        or row.host not in move.remove]
        counts = [sum(row.host == host for row in placements)
                  for host in 'abc']
        self.assertEqual(20, sum(counts))
        self.assertLessEqual(max(counts) - min(counts), 1, counts)
        self.assertLess(made, 15)
