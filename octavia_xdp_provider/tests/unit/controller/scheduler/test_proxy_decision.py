# SPDX-License-Identifier: Apache-2.0
"""On which proxy nodes a load balancer is."""

import dataclasses

from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.scheduler import moves
from octavia_xdp_provider.controller.scheduler import proxy_decision
from octavia_xdp_provider.controller.scheduler import weighers
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller.scheduler import base

DRAIN_S, NOW = 60.0, 1000.0
LIVE, DEAD = base.LIVE, base.DEAD
DRAINING = base.clusters.Condition.DRAINING
Reason = moves.Reason


def placed(host, synced=1, **more):
    return dataclasses.replace(base.placed(host, synced=synced),
                               role=rows.PROXY, announced=False, **more)


def balancer(generation=1, protocol='HTTP', weights=None, **flavor):
    """:param weights: host → weight in ``proxies``; None: there is none."""
    row = base.balancer(generation=generation, **flavor)
    row.document['listeners']['listener']['protocol'] = protocol
    if weights is not None:
        row.document['proxies'] = {'listeners': ['listener'], 'nodes': {
            host: {'addresses': ['198.51.100.7'], 'weight': weight}
            for host, weight in weights.items()}}
    return row


class TestProxyDecision(unit.TestCase):

    def decide(self, conditions, *placements, unused=(), row=None, now=NOW,
               replicas=2):
        decider = proxy_decision.ProxyDecider(
            base.cluster(conditions, placements, role=rows.PROXY),
            [filters.live, filters.capacity],
            [weighers.fewest_load_balancers], replicas, DRAIN_S, now)
        return decider.decide(row or balancer(), placements,
                              decision.Traffic(unused=unused))

    def test_number_is_that_of_replicas_if_a_listener_needs_proxies(self):
        self.assertEqual(2, len(self.decide('abc').add))
        self.assertEqual(3, len(self.decide('abc', row=balancer(
            replicas=3)).add))
        self.assertIsNone(self.decide('abc', row=balancer(protocol='TCP')))

    def test_surplus_proxy_leaves_after_weight_0_and_the_drain_time(self):
        """The steps of a drain; LB nodes apply weight 0 before or after the
        drain time is over."""
        others = placed('a'), placed('b')
        conditions = dict.fromkeys('abc', LIVE)
        move = self.decide(conditions, *others, placed('c'))
        self.assertEqual((1, {}), (len(move.drain), move.remove))
        c = move.drain[0]
        others = [placed(host) for host in 'abc' if host != c]
        leaving = placed(c, draining_since=NOW)
        for unused, age_s, is_removed, again in (
                ((), 0, False, True), ((c,), DRAIN_S - 1, False, True),
                ((), DRAIN_S + 1, False, False), ((c,), DRAIN_S, True, False)):
            move = self.decide(conditions, *others, leaving, unused=unused,
                               now=NOW + age_s)
            self.assertEqual(
                (is_removed, again),
                (bool(move and move.remove),
                 bool(move and move.again_in_s)), (unused, age_s))

    def test_drain_goes_on_while_its_own_change_is_applied(self):
        """Weight 0 is a generation that proxy nodes have yet to apply."""
        row = balancer(generation=2)
        conditions = dict.fromkeys('abc', LIVE)
        for leaving in (placed('c', draining_since=NOW),
                        placed('c', draining_since=NOW, replace=True)):
            move = self.decide(conditions, placed('a'), placed('b'), leaving,
                               row=row, unused=('c',), now=NOW + DRAIN_S)
            self.assertIsNone(move)

    def test_draining_proxy_that_is_needed_again_is_restored(self):
        """This includes a failover, which ends if no node can take over."""
        conditions = {'a': LIVE, 'b': DEAD, 'c': LIVE}
        for leaving in (placed('c', draining_since=NOW),
                        placed('c', draining_since=NOW, replace=True)):
            move = self.decide(conditions, placed('a'), placed('b'), leaving)
            self.assertEqual(('c',), move.restore)

    def test_proxies_that_nothing_needs_drain_and_leave(self):
        row = balancer(protocol='TCP')
        move = self.decide('ab', placed('a'), placed('b'), row=row)
        self.assertEqual((('a', 'b'), {}), (move.drain, move.remove))
        drained = [placed(host, draining_since=NOW) for host in 'ab']
        move = self.decide('ab', *drained, row=row, unused=('a', 'b'),
                           now=NOW + DRAIN_S)
        self.assertEqual(dict.fromkeys('ab', Reason.SURPLUS), move.remove)

    def test_proxy_out_of_service_waits_for_its_replacement(self):
        """There is no last resort: LB nodes send to it until then."""
        for condition in DRAINING, base.DISABLED:
            conditions = {'a': LIVE, 'b': condition, 'c': LIVE}
            move = self.decide(conditions, placed('a'), placed('b'))
            self.assertEqual((('c',), ()), (move.add, move.drain))
            self.assertIsNone(self.decide(conditions, placed('a'),
                                          placed('b'), placed('c', synced=0)))
            move = self.decide(conditions, placed('a'), placed('b'),
                               placed('c'))
            self.assertEqual((('b',), {}), (move.drain, move.remove))

    def test_drain_does_not_wait_for_a_replacement_that_cannot_be(self):
        for conditions, drained in (
                ({'a': LIVE, 'b': DRAINING}, ('b',)),
                ({'a': LIVE, 'b': DRAINING, 'c': DRAINING}, ('b',)),
                ({'a': DRAINING, 'b': DRAINING}, ())):
            move = self.decide(conditions, placed('a'), placed('b'))
            self.assertEqual((drained, (), {}), (
                (move.drain, move.add, move.remove) if move
                else ((), (), {})))
        # Not before the other one can take over.
        self.assertIsNone(self.decide(
            {'a': LIVE, 'b': DRAINING}, placed('a', synced=0), placed('b')))
        draining = placed('b', draining_since=NOW)
        self.assertIsNone(self.decide(
            {'a': LIVE, 'b': DRAINING}, placed('a'), draining,
            unused=('b',), now=NOW + DRAIN_S))
        move = self.decide(dict.fromkeys('ab', LIVE), placed('a'), draining)
        self.assertEqual(('b',), move.restore)

    def test_dead_proxy_leaves_once_its_replacement_has_the_change(self):
        conditions = {'a': LIVE, 'b': DEAD, 'c': LIVE}
        move = self.decide(conditions, placed('a'), placed('b'))
        self.assertEqual((('c',), {}), (move.add, move.remove))
        self.assertIsNone(self.decide(conditions, placed('a'), placed('b'),
                                      placed('c', synced=0)))
        move = self.decide(conditions, placed('a'), placed('b'), placed('c'))
        self.assertEqual({'b': Reason.DEAD}, move.remove)

    def test_failing_proxy_drains_unless_it_never_served(self):
        conditions = dict.fromkeys('abc', LIVE)
        for synced, drain, remove in ((1, ('b',), {}),
                                      (0, (), {'b': Reason.FAILING})):
            move = self.decide(conditions, placed('a'),
                               placed('b', synced=synced, error='no'),
                               placed('c'))
            self.assertEqual((drain, remove), (move.drain, move.remove))

    def test_capacity_counts_proxied_listeners(self):
        row = balancer()
        row.document['listeners']['tcp'] = dict(
            row.document['listeners']['listener'], protocol='TCP')
        for most, fits in ((4, False), (5, True)):
            host = base.cluster('a', role=rows.PROXY, reports={
                'a': {'services': 4, 'services_max': most}}).hosts['a']
            self.assertEqual(
                fits, filters.capacity(host, row.document) is None)

    def test_filters_of_packets_do_not_concern_proxies(self):
        host = base.cluster('a', role=rows.PROXY).hosts['a']
        for flavor in ({'forwarding': 'nat'}, {'zero_touch': 'preferred'}):
            document = balancer(**flavor).document
            self.assertIsNone(filters.nat(host, document))
            self.assertIsNone(filters.zero_touch(host, document))


class TestUnused(unit.TestCase):
    """Which proxies get no new connections, by what LB nodes have applied."""

    def unused(self, weights, *lb_rows, generation=2, **conditions):
        return proxy_decision.unused(
            balancer(generation, weights=weights),
            [*lb_rows, placed('p', synced=2), placed('q', synced=2)],
            {'a': LIVE, 'b': LIVE, **conditions})

    def test_weight_0_counts_once_all_lb_nodes_have_applied_it(self):
        weights = {'p': 0, 'q': 1}
        done = base.placed('a', synced=2)
        old = base.placed('b', synced=1)
        gone = dataclasses.replace(base.placed('b', synced=2),
                                   removed_generation=2)
        for other, conditions, expected in (
                (base.placed('b', synced=2), {}, {'p'}), (old, {}, set()),
                (old, {'b': base.SILENT}, set()), (old, {'b': DEAD}, {'p'}),
                (base.placed('b', synced=2, error='no'), {}, set()),
                (gone, {}, set()), (gone, {'b': DEAD}, {'p'})):
            self.assertEqual(
                expected, self.unused(weights, done, other, **conditions),
                (other, conditions))

    def test_proxy_outside_the_document_gets_no_connections(self):
        done = base.placed('a', synced=2)
        self.assertEqual({'p'}, self.unused({'q': 1}, done))
        self.assertEqual({'p', 'q'}, self.unused(None, done))
        self.assertEqual(set(), self.unused(None, base.placed('a')))
