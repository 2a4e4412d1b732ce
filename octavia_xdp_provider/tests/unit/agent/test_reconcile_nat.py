# SPDX-License-Identifier: Apache-2.0
"""What the agent's passes announce with NAT, and when."""

import ipaddress
from unittest import mock

import fixtures

from octavia_xdp_provider.agent import nat
from octavia_xdp_provider.agent import peers_wait
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import reconciling
from octavia_xdp_provider.tests.unit.agent.nat_node import peers
from octavia_xdp_provider.tests.unit.agent.nat_node import POOL


class TestPasses(reconciling.ReconcilerTestCase):

    def setUp(self):
        super().setUp()
        self.conf = self.load(
            f'[agent]\nwithdraw_grace = 0\n[nat]\npools = {POOL}\n'
            '[bgp]\ncommunities = 65000:1\n')
        self.own = set()
        self.announce._networks.append(ipaddress.ip_network(POOL))
        self.unmonitored()
        self.document['flavor'] = {'forwarding': 'nat'}
        # A previous agent has set them.
        self.datapath.peers = ['198.51.100.0']
        self.restart()

    def restart(self):
        self.gave_up = mock.Mock()
        self.nat = nat.Nat(self.conf, self.datapath, lambda: self.own,
                           self.gave_up)
        self.reconciler = self.make(self.conf, nat=self.nat)

    def nat_state(self):
        return self.nat.report(self.reconciler.facts.nat_flows())

    def boot(self):
        """Nothing is known of peers; `now` is what clocks say."""
        self.datapath.peers = None
        self.now = 1000.0
        self.useFixture(fixtures.MockPatchObject(
            peers_wait, 'time', mock.Mock(monotonic=lambda: self.now)))
        self.restart()

    def test_vips_are_announced_once_peers_are_known(self):
        self.boot()
        self.run_pass(self.document)
        self.assertEqual({POOL}, self.announced())
        self.assertIn(reconciling.KEY, self.datapath.held)
        # Controllers do not know yet that it has pools.
        self.nat.peers.want(peers(a='192.0.2.0'))
        self.now += peers_wait.WAIT_S - 1
        self.run_pass(self.document)
        self.assertEqual({POOL}, self.announced())
        self.nat.peers.want(peers(
            a='192.0.2.0', **{self.conf.host: '198.51.100.0'}))
        self.reconciler.announce(reconciling.BOTH)
        # Nor do the others know this node.
        self.now += peers_wait.OTHERS_S - 1
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual({POOL}, self.announced())
        self.now += 1
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())
        self.gave_up.assert_not_called()

    def test_single_node_does_not_wait_for_peers(self):
        self.boot()
        self.nat.peers.want(peers(**{self.conf.host: '198.51.100.0'}))
        self.run_pass(self.document)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())

    def test_nodes_that_have_known_each_other_for_long_do_not_wait(self):
        self.boot()
        self.nat.peers.want(peers(
            a='192.0.2.0', **{self.conf.host: '198.51.100.0'}))
        self.run_pass()
        self.now += peers_wait.OTHERS_S
        self.run_pass(self.document)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())

    def test_peers_are_not_waited_for_without_an_end(self):
        self.boot()
        self.run_pass(self.document)
        self.now += peers_wait.WAIT_S - 1
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual({POOL}, self.announced())
        self.now += 1
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())
        self.run_pass(self.document)
        self.gave_up.assert_called_once_with()

    def test_wait_begins_with_the_first_vip(self):
        self.boot()
        self.run_pass()
        self.now += 2 * peers_wait.WAIT_S
        self.run_pass(self.document)
        self.assertEqual({POOL}, self.announced())

    def test_vips_that_are_announced_stay_and_others_do_not_wait(self):
        self.run_pass(self.document)
        self.boot()
        self.run_pass(self.document)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())
        self.run_pass()
        self.document['flavor'] = {}
        self.run_pass(self.document)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())

    def test_pools_are_there_before_services_and_announced_with_them(self):
        result = self.run_pass(self.document)
        self.assertEqual({}, result.failed)
        self.assertEqual([POOL], self.datapath.pools)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())
        self.assertEqual({('65000:1',)}, {
            route.communities for route in self.announce.wanted().values()})

    def test_pools_outlive_vips(self):
        """Flows of a VIP that went live on by their pool."""
        self.run_pass(self.document)
        self.run_pass()
        self.assertEqual({POOL}, self.announced())
        # Draining a load balancer does not drain the pools.
        self.reconciler.reconcile(self.wanted(self.document)._replace(
            draining=frozenset(['lb'])), reconciling.BOTH)
        self.assertEqual(
            {POOL: False, reconciling.PREFIX: True},
            {str(prefix): '65535:0' in route.communities for prefix, route
             in self.announce.wanted().items()})

    def test_peers_are_set_by_passes_and_between_them(self):
        host = self.conf.host
        self.nat.peers.want(peers(**{host: '198.51.100.0'}))
        self.run_pass(self.document)
        self.assertEqual(['198.51.100.0'], self.datapath.peers)
        self.nat.peers.want(peers(a='192.0.2.0', **{host: '198.51.100.0'}))
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual(['192.0.2.0', '198.51.100.0'], self.datapath.peers)

    def test_vip_that_is_withdrawn_keeps_its_service(self):
        self.run_pass(self.document)
        wanted = self.wanted(self.document)
        ends = frozenset(['lb'])
        self.reconciler.reconcile(wanted._replace(
            draining=ends, withdrawn=ends), reconciling.BOTH)
        self.assertEqual({POOL}, self.announced())
        self.assertIn(reconciling.KEY, self.datapath.held)
        self.assertIs(False, self.reconciler.held['lb']['announced'])
        self.reconciler.reconcile(wanted, reconciling.BOTH)
        self.assertEqual({POOL, reconciling.PREFIX}, self.announced())

    def test_restarted_agent_keeps_the_route_of_its_pools(self):
        self.run_pass(self.document)
        before = self.announce.wanted()
        self.restart()
        self.events.clear()
        self.reconciler.announce(frozenset())
        self.assertEqual(before, self.announce.wanted())
        self.run_pass(self.document)
        self.assertEqual([], self.events)

    def test_pools_that_are_not_configured_any_more_are_withdrawn(self):
        self.run_pass(self.document)
        self.conf = self.load('[agent]\nwithdraw_grace = 0\n')
        self.restart()
        result = self.run_pass(self.document)
        self.assertIn('[nat] pools', result.failed['lb'])
        self.assertEqual({reconciling.PREFIX}, self.announced())
        self.assertEqual([], self.datapath.pools)

    def test_nat_problem_affects_only_nat_load_balancers(self):
        other = dict(base.document(vip_address='203.0.113.11'), id='other')
        self.run_pass(self.document, other)
        self.own = {'198.51.100.1'}
        result = self.run_pass(self.document, other)
        self.assertEqual({'lb': self.nat.problem}, result.failed)
        self.assertEqual([], self.reconciler.problems)
        self.assertEqual([self.nat.problem, None], [
            self.reconciler.held[key]['error'] for key in ('lb', 'other')])
        # The pools from before stay in use.
        self.assertEqual([POOL], self.nat_state()['pools'])
        self.assertIn(self.nat.problem, self.nat_state()['problem'])
        self.own = set()
        self.assertEqual({}, self.run_pass(self.document, other).failed)
        self.assertNotIn('problem', self.nat_state())

    def test_flows_and_bytes_are_counted_also_when_it_is_withdrawn(self):
        self.run_pass(self.document)
        self.datapath.active, self.datapath.reply_bytes = 5, 999
        self.datapath.set_health(reconciling.KEY, False)
        self.reconciler.announce(reconciling.BOTH)
        self.assertEqual({POOL}, self.announced())
        self.assertEqual(
            {'bytes': 1500, 'flows': 1, 'drops': 0, 'active': 5,
             'bytes_out': 999},
            self.reconciler.facts.counters()['lb']['listener'])
        self.assertEqual({'TCP': 5, 'UDP': 0, 'SCTP': 0},
                         self.reconciler.facts.active_flows())
        ((_, _, _, traffic),) = self.reconciler.facts.traffic()
        self.assertEqual(5, traffic.active)
        self.assertEqual(
            {'pools': [POOL], 'ports': 4 * 64512, 'flows': 5,
             'share': 2 * 64512, 'peers': 0, 'projects': {'p': 5}},
            self.nat_state())
