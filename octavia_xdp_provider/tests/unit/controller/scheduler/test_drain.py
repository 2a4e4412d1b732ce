# SPDX-License-Identifier: Apache-2.0
"""A VIP that leaves a node by plan is drained there first."""

import dataclasses

from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.scheduler import weighers
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller.scheduler import base

DRAIN_S = 5
NOW = 1000.0
DRAINING = clusters.Condition.DRAINING
Why = decision.Why


def placed(host, announced=True, **more):
    return dataclasses.replace(base.placed(host), announced=announced,
                               **more)


class TestDrain(unit.TestCase):

    def decide(self, conditions, *placements, now=NOW, replicas=1):
        decider = decision.Decider(
            base.cluster(conditions, placements),
            [filters.live], [weighers.fewest_load_balancers], replicas,
            DRAIN_S, now)
        return decider.decide(base.balancer(), placements)

    def test_what_leaves_is_drained_before_it_is_removed(self):
        conditions = {'a': base.DISABLED, 'b': base.LIVE}
        move = self.decide(conditions, placed('a'), placed('b'))
        self.assertEqual((('a',), {}, DRAIN_S),
                         (move.drain, move.remove, move.again_in_s))
        drained = placed('a', draining_since=NOW)
        move = self.decide(conditions, drained, placed('b'), now=NOW + 2)
        self.assertEqual((False, DRAIN_S - 2),
                         (move.changes_something, move.again_in_s))
        move = self.decide(conditions, drained, placed('b'),
                           now=NOW + DRAIN_S)
        self.assertEqual(({'a': Why.DISABLED}, ()),
                         (move.remove, move.restore))

    def test_a_node_that_has_not_seen_it_is_waited_for(self):
        self.assertIsNone(self.decide(
            {'a': base.DISABLED, 'b': base.LIVE},
            placed('a', draining_since=NOW, drain_generation=2),
            placed('b'), now=NOW + DRAIN_S))

    def test_failed_nodes_and_what_is_not_announced_go_at_once(self):
        for condition, row in (
                (base.DEAD, placed('a')),
                (base.LIVE, dataclasses.replace(placed('a'), error='full')),
                (base.DISABLED, placed('a', announced=False)),
                (base.DISABLED, placed('a', announced=None))):
            move = self.decide({'a': condition, 'b': base.LIVE}, row,
                               placed('b'))
            self.assertEqual(['a'], list(move.remove))

    def test_others_must_announce_what_a_node_announces_that_it_leaves(self):
        conditions = {'a': base.DISABLED, 'b': base.LIVE}
        self.assertIsNone(self.decide(
            conditions, placed('a', draining_since=NOW - 60),
            placed('b', announced=False)).remove or None)
        # Nothing is announced by anybody: no member is up.
        self.assertEqual(['a'], list(self.decide(
            conditions, placed('a', announced=False),
            placed('b', announced=False)).remove))

    def test_all_of_a_draining_node_is_a_last_resort_at_once(self):
        move = self.decide({'a': DRAINING}, placed('a'))
        self.assertEqual((('a',), {}, ()),
                         (move.drain, move.remove, move.add))
        self.assertIsNone(self.decide(
            {'a': DRAINING}, placed('a', draining_since=NOW)))

    def test_a_draining_node_is_replaced_and_left(self):
        conditions = {'a': DRAINING, 'b': base.LIVE}
        drained = placed('a', draining_since=NOW - DRAIN_S)
        self.assertEqual(('b',), self.decide(conditions, drained).add)
        self.assertEqual({'a': Why.DRAINED}, self.decide(
            conditions, drained, placed('b')).remove)

    def test_what_need_not_leave_any_more_is_announced_as_ever(self):
        move = self.decide({'a': base.LIVE}, placed('a', draining_since=NOW))
        self.assertEqual((('a',), ()), (move.restore, move.drain))

    def test_what_a_node_gets_it_does_not_get_while_draining(self):
        self.assertIsNone(self.decide({'a': DRAINING}))
