# SPDX-License-Identifier: Apache-2.0
"""Scheduler and controllers move load balancers between proxy nodes."""

from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit.controller import proxied_nodes

DRAIN_S = 60  # [placement] proxy_drain_time
LB_NODES = ('a', 'b')


class TestProxyPlacement(proxied_nodes.ProxiedNodesTestCase):
    """LB nodes a and b, proxy nodes p, q and r."""

    def on(self, role=rows.PROXY):
        return {row.host for row in self.store.placements.select(['lb'])
                if row.role == role and row.removed_generation is None}

    def report_all(self, *without):
        """All nodes but these fetch, apply and report; several times, as one
        change may cause another."""
        for _ in range(4):
            for host in 'abpqr':
                if host not in without:
                    # Proxy nodes announce nothing.
                    self.report(host, announced=host in LB_NODES)
            self.work()

    def pass_time(self, seconds, *without):
        self.now += seconds
        self.store.work.mark(['lb'])
        self.work()
        self.report_all(*without)

    def served(self):
        """Create a load balancer that proxies serve; return them, and the
        third proxy node."""
        self.create()
        self.report_all()
        hosts = self.on()
        self.assertEqual(2, len(hosts))
        self.assertEqual(dict.fromkeys(hosts, 1), self.weights())
        return *sorted(hosts), *({*'pqr'} - hosts)

    def test_each_tier_has_nodes_of_its_role(self):
        self.served()
        self.assertEqual({'a', 'b'}, self.on(rows.LB))
        self.assertLess(self.on(), {'p', 'q', 'r'})

    def test_load_balancer_of_layer_4_has_no_proxy_nodes(self):
        self.create('TCP')
        self.report_all()
        self.assertEqual(({'a', 'b'}, set()),
                         (self.on(rows.LB), self.on()))

    def test_drained_proxy_leaves_after_lb_nodes_and_the_drain_time(self):
        first, second, third = self.served()
        self.set_conditions(**{second: 'draining'})
        self.work()
        self.assertEqual({'p', 'q', 'r'}, self.on())
        self.assertEqual(1, self.weights()[second], 'nothing replaces it yet')
        self.report_all(second, *LB_NODES)
        self.report_all(*LB_NODES)
        self.assertEqual({first: 1, second: 0, third: 1}, self.weights())
        self.pass_time(DRAIN_S + 1, 'b')
        self.assertIn(second, self.on(), 'b sends it new connections')
        self.report_all()
        self.assertEqual({first, third}, self.on())
        self.assertEqual({first: 1, third: 1}, self.weights())

    def test_drained_proxy_keeps_connections_for_the_drain_time(self):
        first, second, third = self.served()
        self.set_conditions(**{second: 'disabled'})
        self.work()
        self.report_all()
        self.pass_time(DRAIN_S - 5)
        self.assertEqual({first: 1, second: 0, third: 1}, self.weights())
        self.assertIn(second, self.on())
        self.pass_time(10)
        self.assertEqual({first, third}, self.on())

    def test_dead_proxy_is_replaced_without_a_drain(self):
        first, second, third = self.served()
        self.set_conditions(**{second: 'dead'})
        self.work()
        self.assertEqual({'p', 'q', 'r'}, self.on())
        self.report_all(second)
        self.assertEqual({first, third}, self.on())
        self.assertEqual({first: 1, third: 1}, self.weights())

    def test_proxies_leave_when_no_listener_needs_them(self):
        self.served()
        self.set_protocol('TCP')
        self.work()
        self.report_all()
        self.assertIsNone(self.weights())
        self.assertEqual(2, len(self.on()))
        self.pass_time(DRAIN_S + 1)
        self.assertEqual(set(), self.on())
        self.assertEqual({'a', 'b'}, self.on(rows.LB))

    def test_proxies_come_when_a_listener_needs_them(self):
        self.create('TCP')
        self.report_all()
        self.set_protocol('HTTP')
        self.work()
        self.report_all()
        self.assertEqual(dict.fromkeys(self.on(), 1), self.weights())
        self.assertEqual(2, len(self.on()))

    def test_failover_replaces_the_nodes_of_both_tiers(self):
        *_, third = self.served()
        self.fail_over()
        self.work()
        self.report_all()
        self.assertIn(third, self.on())
        self.assertEqual(1, self.weights()[third])
