# SPDX-License-Identifier: Apache-2.0
"""Pools of NAT on a node, shares of projects, and peers."""

import errno
import ipaddress
from unittest import mock

from octavia_xdp_provider.agent import nat
from octavia_xdp_provider.config import nat_options
from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import nat_node
from octavia_xdp_provider.tests.unit.agent.nat_node import document
from octavia_xdp_provider.tests.unit.agent.nat_node import peers
from octavia_xdp_provider.tests.unit.agent.nat_node import POOL
from octavia_xdp_provider.tests.unit.agent.nat_node import POOL_V6


class TestOptions(base.TestCase):

    def test_pools_that_cannot_be_used_are_named(self):
        for pools, problem in (
                ('pool', 'no network'),
                ('198.51.100.1/28', 'behind its prefix'),
                ('198.51.100.0/23', 'more than 256'),
                ('198.51.100.0/24, 192.0.2.0/32', 'more than 256'),
                ('2001:db8:0:1::/119', 'more than 256'),
                ('198.51.100.0/28, 198.51.100.8/30', 'overlap'),
                ('224.0.0.0/28', 'routed'), ('127.0.0.0/28', 'routed'),
                ('fe80::/120', 'routed'),
                ('::ffff:198.51.100.0/124', 'written as IPv6'),
                ('203.0.113.16/28', '[vip] allowed_networks')):
            error = self.assertRaises(
                option_values.ConfigurationError, self.load,
                f'[nat]\npools = {pools}\n'
                '[vip]\nallowed_networks = 203.0.113.0/24')
            self.assertIn('[nat] pools', str(error))
            self.assertIn(problem, str(error))

    def test_pools_of_both_families_up_to_their_limit(self):
        conf = self.load('[nat]\npools = 2001:db8:0:1::/120, 198.51.100.0/24')
        self.assertEqual(
            ('198.51.100.0/24', '2001:db8:0:1::/120'),
            tuple(map(str, nat_options.pools(conf))))
        self.assertEqual((), nat_options.pools(self.load('')))

    def test_share_is_computed_from_the_smaller_family(self):
        networks = tuple(map(ipaddress.ip_network, (
            '198.51.100.0/31', '2001:db8:0:1::/120')))
        self.assertEqual(2 * 64512 // 4, nat_options.share(networks, 25))
        self.assertEqual(256 * 64512, nat_options.share(networks[1:], 100))

    def test_time_outs_that_cannot_be_are_named(self):
        for name, wrong in (
                ('tcp_opening_timeout', 9), ('tcp_closing_timeout', 16001),
                ('tcp_time_wait_timeout', 0), ('udp_opening_timeout', -1),
                ('tcp_established_timeout', 'soon'),
                ('udp_established_timeout', 65536)):
            error = self.assertRaises(
                option_values.ConfigurationError, self.load,
                f'[nat]\n{name} = {wrong}')
            self.assertIn(f'[nat] {name}: ', str(error))
        self.load('[nat]\ntcp_opening_timeout = 10\n'
                  'udp_established_timeout = 16000')

    def test_members_in_a_pool_are_refused(self):
        conf = self.load(f'[nat]\npools = {POOL}')
        # Where no networks of members are set a node takes all.
        policy = options.allowed_addresses(conf, ())
        self.assertIn(POOL, policy.member_problem('198.51.100.1')[2])
        self.assertIsNone(policy.member_problem('198.51.100.4'))


class TestPools(nat_node.NatTestCase):

    def test_pools_are_set_once_and_reported(self):
        node_nat = self.make(f'{POOL}, {POOL_V6}')
        self.assertIsNone(node_nat.report({}))
        node_nat.refresh()
        self.assertEqual([POOL, POOL_V6], self.dataplane.pools)
        version = node_nat.version
        self.dataplane.set_nat_pools = None  # It is not called again.
        node_nat.refresh()
        self.assertEqual(version, node_nat.version)
        self.assertEqual(
            {'pools': [POOL, POOL_V6], 'ports': 8 * 64512, 'flows': 7,
             'share': 4 * 64512 // 2, 'peers': 0,
             'projects': {'a': 5, 'b': 2}},
            node_nat.report({'b': 2, 'a': 5}))

    def test_projects_with_the_most_flows_are_named(self):
        node_nat = self.make()
        node_nat.refresh()
        report = node_nat.report({
            f'p{number:03}': number for number in range(99)})
        self.assertEqual(50, len(report['projects']))
        self.assertEqual('p098', next(iter(report['projects'])))
        self.assertEqual(99 * 98 // 2, report['flows'])

    def test_pools_that_are_there_are_used_before_the_first_pass(self):
        self.dataplane.pools = [POOL]
        self.assertEqual([POOL], [str(pool) for pool in self.make().pools])
        self.assertEqual((), self.make('192.0.2.0/30').pools)

    def test_pool_with_an_address_of_the_node_is_refused(self):
        self.own = {'198.51.100.2', '2001:db8::2'}
        node_nat = self.make()
        node_nat.refresh()
        self.assertEqual([], self.dataplane.pools)
        self.assertIn('198.51.100.2', node_nat.problem)
        error = self.assertRaises(errors.Refused, node_nat.share, document())
        self.assertIn('198.51.100.2', str(error))
        version, self.own = node_nat.version, set()
        node_nat.refresh()
        self.assertIsNone(node_nat.problem)
        self.assertNotEqual(version, node_nat.version)
        node_nat.share(document())

    def test_refused_pools_are_a_problem(self):
        self.dataplane.error = datapath.DatapathError(
            errno.EEXIST, '198.51.100.1 is a VIP')
        node_nat = self.make()
        node_nat.refresh()
        self.assertEqual('[nat] pools: 198.51.100.1 is a VIP',
                         node_nat.problem)
        self.assertEqual((), node_nat.pools)

    def test_another_library_ends_the_pass(self):
        self.dataplane.error = datapath.DatapathError(errno.ESTALE, 'stale')
        self.assertRaises(datapath.DatapathError, self.make().refresh)


class TestTimeouts(nat_node.NatTestCase):

    WANTED = {'tcp_opening_timeout': 30, 'tcp_closing_timeout': 50,
              'tcp_time_wait_timeout': 20, 'udp_opening_timeout': 40}

    def test_timeouts_are_set_once_as_configured(self):
        node_nat = self.make(**self.WANTED)
        node_nat.refresh()
        self.assertEqual(datapath.NatTimeouts(30, 50, 20, 40),
                         self.dataplane.timeouts)
        self.dataplane.set_nat_timeouts = None  # It is not called again.
        node_nat.refresh()
        self.assertIsNone(node_nat.problem)

    def test_agent_with_other_timeouts_replaces_them(self):
        self.make(**self.WANTED).refresh()
        self.make().refresh()
        self.assertEqual(datapath.NatTimeouts(240, 240, 60, 120),
                         self.dataplane.timeouts)

    def test_nodes_without_pools_have_none(self):
        self.dataplane.nat_timeouts = self.dataplane.set_nat_timeouts = None
        self.make('', **self.WANTED).refresh()

    def test_refused_timeouts_are_a_problem_beside_the_pools(self):
        self.dataplane.set_nat_timeouts = mock.Mock(
            side_effect=datapath.DatapathError(errno.EINVAL, 'no such time'))
        node_nat = self.make(**self.WANTED)
        node_nat.refresh()
        self.assertEqual('[nat] time-outs: no such time', node_nat.problem)
        self.assertEqual([POOL], self.dataplane.pools)
        node_nat.share(document())
        self.dataplane.set_nat_timeouts.side_effect = None
        node_nat.refresh()
        self.assertIsNone(node_nat.problem)

    def test_another_library_ends_the_pass(self):
        self.dataplane.set_nat_timeouts = mock.Mock(
            side_effect=datapath.DatapathError(errno.ESTALE, 'stale'))
        self.assertRaises(datapath.DatapathError,
                          self.make(**self.WANTED).refresh)

    def test_services_have_those_of_established_flows(self):
        node_nat = self.make(tcp_established_timeout=500,
                        udp_established_timeout=90)
        node_nat.refresh()
        self.assertEqual({'TCP': 500, 'UDP': 90},
                         node_nat.share(document()).idle_times)


class TestShares(nat_node.NatTestCase):

    def test_projects_have_numbers_of_their_own_which_stay(self):
        node_nat = self.make(tenant_share=100)
        node_nat.refresh()
        names = [f'project{number}' for number in range(nat.GROUPS)]
        shares = [node_nat.share(document(project_id=name)) for name in names]
        self.assertEqual(set(range(nat.GROUPS)),
                         {share.group for share in shares})
        self.assertEqual({4 * 64512}, {share.flows for share in shares})
        again = [node_nat.share(document(project_id=name)) for name in names]
        self.assertEqual(shares, again)
        # One more shares with somebody; node_nat that went leaves its number.
        self.assertIn(node_nat.share(document(project_id='more')).group,
                      range(nat.GROUPS))
        node_nat.keep_groups(set(names[1:]))
        self.assertEqual(shares[0].group,
                         node_nat.share(document(project_id='project0')).group)

    def test_single_project_has_the_same_number_after_a_restart(self):
        numbers = set()
        for _ in range(2):
            node_nat = self.make()
            node_nat.refresh()
            numbers.add(node_nat.share(document()).group)
        self.assertEqual(1, len(numbers))

    def test_members_of_a_family_without_a_pool_are_refused(self):
        node_nat = self.make()
        node_nat.refresh()
        wanted = document()
        wanted['pools']['pool']['members']['m1']['address'] = '2001:db8::1'
        error = self.assertRaises(errors.Refused, node_nat.share, wanted)
        self.assertEqual('flavor', error.option)
        self.assertIn('no IPv6', str(error))
        self.assertRaises(errors.Refused, self.make('').share, document())


class TestPeers(nat_node.NatTestCase):

    def setUp(self):
        super().setUp()
        self.node_nat = self.make()
        self.host = self.node_nat.peers._host
        self.both = peers(a='198.51.100.8', **{self.host: '198.51.100.0'})

    def test_peers_are_set_once_and_on_changes(self):
        self.node_nat.peers.refresh()
        self.assertIsNone(self.dataplane.peers)  # Not known: as they were.
        self.assertTrue(self.node_nat.peers.want(self.both))
        self.node_nat.peers.refresh()
        self.assertEqual(['198.51.100.8', '198.51.100.0'],
                         self.dataplane.peers)
        self.assertFalse(self.node_nat.peers.want(self.both))
        self.dataplane.peers = None
        self.node_nat.peers.refresh()
        self.assertIsNone(self.dataplane.peers)
        self.assertTrue(self.node_nat.peers.want(self.both[1:]))
        self.node_nat.peers.refresh()
        self.assertEqual(['198.51.100.0'], self.dataplane.peers)

    def test_node_missing_from_the_peers_has_no_peers(self):
        self.node_nat.peers.want(self.both)
        self.node_nat.peers.refresh()
        self.node_nat.peers.want(self.both[:1])
        self.node_nat.peers.refresh()
        self.assertEqual([], self.dataplane.peers)

    def test_refused_peers_are_retried_and_no_problem_of_the_node(self):
        self.node_nat.refresh()
        self.dataplane.error = datapath.DatapathError(
            errno.ENOENT, 'none of the peers is of its pools')
        self.node_nat.peers.want(self.both)
        self.node_nat.peers.refresh()
        self.assertEqual((None, 0), (self.node_nat.problem,
                                     self.node_nat.report({})['peers']))
        self.dataplane.error = None
        self.node_nat.peers.refresh()
        self.assertEqual(2, len(self.dataplane.peers))
        self.assertEqual(2, self.node_nat.report({})['peers'])

    def test_node_without_pools_sets_no_peers(self):
        node_nat = self.make('')
        self.assertFalse(node_nat.is_wanted)
        node_nat.peers.refresh()
        self.assertEqual([], self.dataplane.peers)
