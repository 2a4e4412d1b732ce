# SPDX-License-Identifier: Apache-2.0
"""A VIP whose removal is planned is drained first."""

import dataclasses

from octavia_xdp_provider.api import nat
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.scheduler import moves
from octavia_xdp_provider.controller.scheduler import weighers
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller.scheduler import base

DRAIN_S = 5
NAT_DRAIN_S = 3600
SETTLED = decision.FLOWS_SETTLE_S
NOW = 1000.0
DRAINING = clusters.Condition.DRAINING
Reason = moves.Reason


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

    def test_vip_is_drained_before_removal(self):
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
        self.assertEqual(({'a': Reason.DISABLED}, ()),
                         (move.remove, move.restore))

    def test_drain_ends_after_clock_is_set_back(self):
        drained = placed('a', draining_since=NOW + 7200)
        move = self.decide({'a': base.DISABLED, 'b': base.LIVE}, drained,
                           placed('b'))
        self.assertEqual({'a': Reason.DISABLED}, move.remove)

    def test_removal_waits_until_node_has_applied_the_drain(self):
        self.assertIsNone(self.decide(
            {'a': base.DISABLED, 'b': base.LIVE},
            placed('a', draining_since=NOW, drain_generation=2),
            placed('b'), now=NOW + DRAIN_S))

    def test_failed_or_unannounced_vips_are_removed_at_once(self):
        for condition, row in (
                (base.DEAD, placed('a')),
                (base.LIVE, dataclasses.replace(placed('a'), error='full')),
                (base.DISABLED, placed('a', announced=False)),
                (base.DISABLED, placed('a', announced=None))):
            move = self.decide({'a': condition, 'b': base.LIVE}, row,
                               placed('b'))
            self.assertEqual(['a'], list(move.remove))

    def test_announced_vip_stays_until_others_announce_it(self):
        conditions = {'a': base.DISABLED, 'b': base.LIVE}
        self.assertIsNone(self.decide(
            conditions, placed('a', draining_since=NOW - 60),
            placed('b', announced=False)).remove or None)
        # No member is up, so no node announces the VIP.
        self.assertEqual(['a'], list(self.decide(
            conditions, placed('a', announced=False),
            placed('b', announced=False)).remove))

    def test_draining_node_announces_last_resort_at_once(self):
        move = self.decide({'a': DRAINING}, placed('a'))
        self.assertEqual((('a',), {}, ()),
                         (move.drain, move.remove, move.add))
        self.assertIsNone(self.decide(
            {'a': DRAINING}, placed('a', draining_since=NOW)))

    def test_draining_node_is_replaced_then_left(self):
        conditions = {'a': DRAINING, 'b': base.LIVE}
        drained = placed('a', draining_since=NOW - DRAIN_S)
        self.assertEqual(('b',), self.decide(conditions, drained).add)
        self.assertEqual({'a': Reason.DRAINED}, self.decide(
            conditions, drained, placed('b')).remove)

    def test_vip_that_need_not_leave_is_restored(self):
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
        return decider.decide(balancer, placements,
                              decision.Traffic(flows or {}))

    def test_nat_flows_keep_their_node_until_they_end(self):
        conditions = {'a': DRAINING, 'b': base.LIVE}

        def decide(flows, **more):
            return self.nat(conditions, placed('a', **more), placed('b'),
                            flows=flows)

        # Without NAT or with it, the drain comes first.
        self.assertEqual((('a',), ()), (decide({'a': 3}).drain,
                                        decide({'a': 3}).withdraw))
        more = {'draining_since': NOW - DRAIN_S}
        for flows in ({'a': 3}, {'b': 3}):
            # Flows that began after the report are not known yet.
            move = decide(flows, **more)
            self.assertEqual((('a',), {}, (), SETTLED), (
                move.withdraw, move.remove, move.drain, move.again_in_s))
        more |= {'withdrawn_since': NOW - 1, 'announced': False}
        move = decide({}, **more)
        self.assertEqual((False, SETTLED - 1), (move.changes_something,
                                                move.again_in_s))
        more['withdrawn_since'] = NOW - SETTLED
        move = decide({'a': 3}, **more)
        self.assertEqual((False, decision.FLOWS_CHECK_S), (
            move.changes_something, move.again_in_s))
        # The node has not applied the withdrawal yet.
        self.assertFalse(
            decide({}, **more, drain_generation=2).changes_something)
        # Flows on other nodes do not count.
        self.assertEqual({'a': Reason.DRAINED},
                         decide({'b': 3}, **more).remove)
        more['withdrawn_since'] = NOW - NAT_DRAIN_S
        self.assertEqual({'a': Reason.DRAINED},
                         decide({'a': 3}, **more).remove)

    def test_nodes_with_udp_flows_drain_later(self):
        """The other nodes must know of the drain first."""
        conditions = {'a': DRAINING, 'b': base.LIVE}
        for protocol, later_s in (('TCP', 0), ('UDP', nat.OTHERS_S)):
            for ago_s, again_in_s in ((DRAIN_S + later_s - 1, 1),
                                      (DRAIN_S + later_s, SETTLED)):
                move = self.nat(
                    conditions, placed('a', draining_since=NOW - ago_s),
                    placed('b'), protocol=protocol, flows={'a': 3})
                self.assertEqual(again_in_s, move.again_in_s)
                self.assertEqual(again_in_s != 1, bool(move.withdraw))

    def test_replacement_waits_until_others_know_of_the_drain(self):
        """A new node makes routers move flows between those that stay."""
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
        # A node that does not announce the VIP has no flows.
        self.assertEqual(('c',), decide(announced=False).add)
        # Failed nodes are replaced at once.
        self.assertEqual(('c',), decide(conditions={
            **conditions, 'a': base.DEAD}).add)
        self.assertEqual(('c',), decide(conditions={
            **conditions, 'b': base.DEAD}).add)
        # Without other nodes, the replacement itself has to look for flows.
        move = self.nat(conditions, placed('a'), protocol='UDP')
        self.assertEqual(1, len(move.add))

    def test_nat_flows_break_at_once_without_a_nat_drain_time(self):
        row = placed('a', draining_since=NOW - DRAIN_S)
        conditions = {'a': DRAINING, 'b': base.LIVE}
        self.assertEqual({'a': Reason.DRAINED}, self.nat(
            conditions, row, placed('b'), flows={'a': 3},
            nat_drain_s=0).remove)

    def test_failed_nodes_have_no_nat_flows(self):
        for condition, row in (
                (base.DEAD, placed('a')),
                (base.LIVE, dataclasses.replace(placed('a'), error='full'))):
            self.assertEqual(['a'], list(self.nat(
                {'a': condition, 'b': base.LIVE}, row, placed('b'),
                flows={'a': 3}).remove))

    def test_unannounced_vip_has_no_flows_to_wait_for(self):
        self.assertEqual({'a': Reason.DRAINED}, self.nat(
            {'a': DRAINING, 'b': base.LIVE}, placed('a', announced=False),
            placed('b', announced=False), flows={}).remove)

    def test_withdrawn_node_announces_again_when_others_fail(self):
        row = placed('a', draining_since=NOW - 60, withdrawn_since=NOW - 50,
                     announced=False)
        move = self.nat({'a': DRAINING, 'b': base.DEAD}, row, placed('b'),
                        flows={'a': 3})
        self.assertEqual((('a',), ()), (move.drain, move.restore))
        move = self.nat({'a': base.LIVE, 'b': base.DEAD}, row, placed('b'),
                        flows={'a': 3})
        self.assertEqual(((), ('a',)), (move.drain, move.restore))

    def test_surplus_stays_with_the_node_that_began_to_drain(self):
        rows = placed('a'), placed('b')
        conditions = {'a': base.LIVE, 'b': base.LIVE}
        first = self.nat(conditions, *rows).drain[0]
        for draining in 'a', 'b':
            rows = [placed(host, **{'draining_since': NOW - 60,
                                    'withdrawn_since': NOW - 50}
                           if host == draining else {}) for host in 'ab']
            move = self.nat(conditions, *rows, flows={draining: 3})
            self.assertFalse(move.changes_something, (first, draining))

    def test_draining_node_gets_no_load_balancers(self):
        self.assertIsNone(self.decide({'a': DRAINING}))
