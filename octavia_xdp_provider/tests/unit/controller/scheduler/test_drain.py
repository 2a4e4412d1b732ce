# SPDX-License-Identifier: Apache-2.0
"""A VIP that leaves a node by plan is drained there first."""

import dataclasses

from octavia_xdp_provider.common import nat
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.scheduler import weighers
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller.scheduler import base

DRAIN_S = 5
NAT_DRAIN_S = 3600
SETTLED = decision.FLOWS_SETTLE_S
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

    def test_a_drain_does_not_wait_for_a_clock_that_was_set_back(self):
        drained = placed('a', draining_since=NOW + 7200)
        move = self.decide({'a': base.DISABLED, 'b': base.LIVE}, drained,
                           placed('b'))
        self.assertEqual({'a': Why.DISABLED}, move.remove)

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

    def nat(self, conditions, *placements, flows=None, replicas=1,
            protocol='TCP', **more):
        decider = decision.Decider(
            base.cluster(conditions, placements), [filters.live],
            [weighers.fewest_load_balancers], replicas, DRAIN_S, NOW,
            **{'nat_drain_s': NAT_DRAIN_S, **more})
        balancer = base.balancer()
        balancer.document['flavor']['forwarding'] = 'nat'
        balancer.document['listeners']['listener']['protocol'] = protocol
        return decider.decide(balancer, placements, flows)

    def test_flows_of_nat_keep_their_node_until_they_end(self):
        conditions = {'a': DRAINING, 'b': base.LIVE}

        def decide(flows, **more):
            return self.nat(conditions, placed('a', **more), placed('b'),
                            flows=flows)

        # At first, as ever, it is announced as a last resort.
        self.assertEqual((('a',), ()), (decide({'a': 3}).drain,
                                        decide({'a': 3}).withdraw))
        more = {'draining_since': NOW - DRAIN_S}
        for flows in ({'a': 3}, {'b': 3}):
            # What has begun since it was reported is not known yet.
            move = decide(flows, **more)
            self.assertEqual((('a',), {}, (), SETTLED), (
                move.withdraw, move.remove, move.drain, move.again_in_s))
        more |= {'withdrawn_since': NOW - 1, 'announced': False}
        move = decide({}, **more)
        self.assertEqual((False, SETTLED - 1), (move.changes_something,
                                                move.again_in_s))
        more['withdrawn_since'] = NOW - SETTLED
        move = decide({'a': 3}, **more)
        self.assertEqual((False, decision.FLOWS_LOOK_S), (
            move.changes_something, move.again_in_s))
        # The node has not seen yet that it shall withdraw.
        self.assertFalse(
            decide({}, **more, drain_generation=2).changes_something)
        # Flows on other nodes count for nothing.
        self.assertEqual({'a': Why.DRAINED}, decide({'b': 3}, **more).remove)
        more['withdrawn_since'] = NOW - NAT_DRAIN_S
        self.assertEqual({'a': Why.DRAINED}, decide({'a': 3}, **more).remove)

    def test_nodes_that_keep_udp_flows_begin_to_drain_later(self):
        """The others shall know first."""
        conditions = {'a': DRAINING, 'b': base.LIVE}
        for protocol, later_s in (('TCP', 0), ('UDP', nat.OTHERS_S)):
            for ago_s, again_in_s in ((DRAIN_S + later_s - 1, 1),
                                      (DRAIN_S + later_s, SETTLED)):
                move = self.nat(
                    conditions, placed('a', draining_since=NOW - ago_s),
                    placed('b'), protocol=protocol, flows={'a': 3})
                self.assertEqual(again_in_s, move.again_in_s)
                self.assertEqual(again_in_s != 1, bool(move.withdraw))

    def test_a_node_in_place_of_one_that_drains_comes_once_others_seek(self):
        """Routers may move flows between those that stay."""
        conditions = {'a': DRAINING, 'b': base.LIVE, 'c': base.LIVE}

        def decide(ago_s=None, protocol='UDP', conditions=conditions, **more):
            if ago_s is not None:
                more['draining_since'] = NOW - ago_s
            return self.nat(conditions, placed('a', **more), placed('b'),
                            protocol=protocol, replicas=2)

        move = decide()
        self.assertEqual((('a',), (), nat.OTHERS_S),
                         (move.drain, move.add, move.again_in_s))
        move = decide(nat.OTHERS_S - 1)
        self.assertEqual(((), (), 1),
                         (move.drain, move.add, move.again_in_s))
        move = decide(nat.OTHERS_S)
        self.assertEqual((('c',), None), (move.add, move.again_in_s))
        self.assertEqual(('c',), decide(protocol='TCP').add)
        # It has no flows.
        self.assertEqual(('c',), decide(announced=False).add)
        # What has failed is replaced at once.
        self.assertEqual(('c',), decide(conditions={
            **conditions, 'a': base.DEAD}).add)
        self.assertEqual(('c',), decide(conditions={
            **conditions, 'b': base.DEAD}).add)
        # Where nobody else has it, the one that comes is who has to seek.
        move = self.nat(conditions, placed('a'), protocol='UDP')
        self.assertEqual(1, len(move.add))

    def test_flows_of_nat_break_at_once_where_an_operator_says_so(self):
        row = placed('a', draining_since=NOW - DRAIN_S)
        conditions = {'a': DRAINING, 'b': base.LIVE}
        self.assertEqual({'a': Why.DRAINED}, self.nat(
            conditions, row, placed('b'), flows={'a': 3},
            nat_drain_s=0).remove)

    def test_what_has_failed_has_no_flows_of_nat(self):
        for condition, row in (
                (base.DEAD, placed('a')),
                (base.LIVE, dataclasses.replace(placed('a'), error='full'))):
            self.assertEqual(['a'], list(self.nat(
                {'a': condition, 'b': base.LIVE}, row, placed('b'),
                flows={'a': 3}).remove))

    def test_a_node_without_members_has_no_flows_to_wait_for(self):
        self.assertEqual({'a': Why.DRAINED}, self.nat(
            {'a': DRAINING, 'b': base.LIVE}, placed('a', announced=False),
            placed('b', announced=False), flows={}).remove)

    def test_a_withdrawn_node_is_announced_again_when_others_fail(self):
        row = placed('a', draining_since=NOW - 60, withdrawn_since=NOW - 50,
                     announced=False)
        move = self.nat({'a': DRAINING, 'b': base.DEAD}, row, placed('b'),
                        flows={'a': 3})
        self.assertEqual((('a',), ()), (move.drain, move.restore))
        move = self.nat({'a': base.LIVE, 'b': base.DEAD}, row, placed('b'),
                        flows={'a': 3})
        self.assertEqual(((), ('a',)), (move.drain, move.restore))

    def test_of_two_nodes_that_one_ends_which_has_begun_to(self):
        rows = placed('a'), placed('b')
        conditions = {'a': base.LIVE, 'b': base.LIVE}
        first = self.nat(conditions, *rows).drain[0]
        for one in 'a', 'b':
            rows = [placed(host, **{'draining_since': NOW - 60,
                                    'withdrawn_since': NOW - 50}
                           if host == one else {}) for host in 'ab']
            move = self.nat(conditions, *rows, flows={one: 3})
            self.assertFalse(move.changes_something, (first, one))

    def test_what_a_node_gets_it_does_not_get_while_draining(self):
        self.assertIsNone(self.decide({'a': DRAINING}))
