# SPDX-License-Identifier: Apache-2.0
"""The agent's NAT on a real datapath: pools, and services that need them."""

import errno
import ipaddress
from unittest import mock

from oslo_config import fixture as config_fixture

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.agent import nat
from octavia_xdp_provider.config import nat_options
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.unit import base

# In no order, of both families.
POOLS = ['2001:db8:40::2/127', '198.51.100.8/32', '198.51.100.0/31']
SORTED = ['198.51.100.0/31', '198.51.100.8/32', '2001:db8:40::2/127']
POLICY = address_policy.AddressPolicy(
    tuple(map(ipaddress.ip_network, ('203.0.113.0/24',))), ())


class TestNatPools(private_node.PrivateState):

    def setUp(self):
        super().setUp()
        self.datapath = self.open()
        self.addCleanup(self.datapath.close)
        conf = options.load(config_files=[])
        self.conf = config_fixture.Config(conf)
        self.conf.setUp()
        self.addCleanup(self.conf.cleanUp)

    def make(self, pools):
        self.conf.config(group='nat', pools=pools)
        return nat.Nat(self.conf.conf, self.datapath, lambda: ())

    def plan(self, node_nat, **more):
        document = base.document(flavor={'forwarding': 'nat'}, **more)
        document['pools']['pool']['members']['m1']['protocol_port'] = 8080
        return forwarding.plan(
            document, forwarding.Context(POLICY, share=node_nat.share))

    def test_pools_are_set_once_and_stay_for_the_next_agent(self):
        node_nat = self.make(POOLS)
        self.assertEqual((), node_nat.pools)
        node_nat.refresh()
        self.assertIsNone(node_nat.problem)
        self.assertEqual(SORTED, self.datapath.nat_pools())
        self.assertEqual(SORTED, node_nat.report({})['pools'])
        with mock.patch.object(self.datapath, 'set_nat_pools') as again:
            node_nat.refresh()
            after = self.make(POOLS)
            after.refresh()
        again.assert_not_called()
        self.assertEqual(SORTED, list(map(str, after.pools)))
        self.assertEqual(
            nat_options.PORTS * 5, self.datapath.nat_usage().ports)
        self.assertEqual(self.datapath.nat_usage().ports,
                         node_nat.report({})['ports'])

    def test_pools_that_go_are_gone(self):
        self.make(POOLS).refresh()
        self.make([]).refresh()
        self.assertEqual([], self.datapath.nat_pools())

    def test_peers_are_kept_for_the_next_agent(self):
        node_nat = self.make(POOLS)
        peers = [{'host': host, 'address': address} for host, address in (
            ('another', '192.0.2.0'),
            (self.conf.conf.host, '198.51.100.0'))]
        addresses = [peer['address'] for peer in peers]
        node_nat.peers.want(peers)
        node_nat.peers.refresh()  # Of no pool yet.
        self.assertEqual([], self.datapath.nat_peers())
        node_nat.refresh()
        node_nat.peers.refresh()
        self.assertEqual(addresses, self.datapath.nat_peers())
        self.assertEqual(2, node_nat.report({})['peers'])
        # It does not know yet which are wanted.
        after = self.make(POOLS)
        after.refresh()
        after.peers.refresh()
        self.assertEqual(addresses, self.datapath.nat_peers())
        after.peers.want(peers[:1])
        after.peers.refresh()
        self.assertEqual([], self.datapath.nat_peers())

    def test_time_outs_are_kept_for_the_next_agent(self):
        usual = datapath.NatTimeouts(240, 240, 60, 120)
        self.assertEqual(usual, self.datapath.nat_timeouts())
        self.make(POOLS).refresh()
        self.assertEqual(usual, self.datapath.nat_timeouts())
        self.conf.config(group='nat', tcp_opening_timeout=10,
                         tcp_closing_timeout=16000, tcp_time_wait_timeout=20,
                         udp_opening_timeout=40)
        self.make(POOLS).refresh()
        others = datapath.NatTimeouts(10, 16000, 20, 40)
        with self.open() as another:
            self.assertEqual(others, another.nat_timeouts())
        with mock.patch.object(self.datapath, 'set_nat_timeouts') as again:
            self.make(POOLS).refresh()
        again.assert_not_called()

    def test_services_are_as_planned(self):
        node_nat = self.make(POOLS)
        node_nat.refresh()
        ((key, service),) = self.plan(node_nat).services.items()
        changed, refused = self.datapath.set_services({
            key: (service.settings, service.members)})
        self.assertEqual(({key}, {}), (changed, refused))
        settings = self.datapath.service(key).settings
        self.assertEqual(datapath.ServiceFlag.NAT, settings.flags)
        self.assertEqual(service.settings.nat_group, settings.nat_group)
        # In steps of 256; half of those of two IPv6 addresses.
        self.assertEqual(-(-64512 // 256) * 256, settings.nat_flows)
        self.assertEqual(7440, settings.idle_timeout_s)
        self.assertEqual(
            {('198.18.10.11', 8080), ('198.18.10.12', 80)},
            {(member.address, member.port)
             for member in self.datapath.members(key)})
        self.assertEqual(({}, set()), (self.datapath.set_services({
            key: (service.settings, service.members)})[::-1]))

    def test_a_pool_with_a_vip_is_refused_with_its_address(self):
        key = datapath.Key('198.51.100.1', 'TCP', 80)
        self.datapath.set_service(key, [datapath.Member('198.18.10.11')])
        node_nat = self.make(POOLS)
        node_nat.refresh()
        self.assertIn('198.51.100.', node_nat.problem)
        self.assertEqual(((), []), (node_nat.pools, self.datapath.nat_pools()))
        self.datapath.delete_services([key])
        node_nat.refresh()
        self.assertIsNone(node_nat.problem)
        self.assertEqual(SORTED, self.datapath.nat_pools())


class TestPeers(private_node.PrivateState):

    PEERS = ('192.0.2.1', '198.51.100.1', '192.0.2.9')

    def setUp(self):
        super().setUp()
        self.datapath = self.open()
        self.addCleanup(self.datapath.close)
        self.datapath.set_nat_pools(['198.51.100.0/31', '2001:db8:40::/127'])

    def refused(self, number, pattern, peers):
        before = self.datapath.nat_peers()
        with self.assertRaisesRegex(
                datapath.DatapathError, pattern) as raised:
            self.datapath.set_nat_peers(peers)
        self.assertEqual(number, raised.exception.errno)
        self.assertEqual(before, self.datapath.nat_peers())

    def test_they_stay_in_their_order(self):
        self.assertEqual([], self.datapath.nat_peers())
        for peers in (self.PEERS, self.PEERS[::-1], ()):
            self.datapath.set_nat_peers(peers)
            self.assertEqual(list(peers), self.datapath.nat_peers())
            with self.open() as other:
                self.assertEqual(list(peers), other.nat_peers())

    def test_what_cannot_be_is_refused_by_name(self):
        self.datapath.set_nat_peers(self.PEERS)
        own = '198.51.100.0'
        self.refused(errno.ENOENT, 'none of the peers', ['192.0.2.1'])
        self.refused(errno.EEXIST, '192.0.2.1 is there twice',
                     [own, '192.0.2.1', '192.0.2.1'])
        self.refused(errno.EINVAL, '198.51.100.1 is the second one',
                     [own, '198.51.100.1'])
        self.refused(errno.EAFNOSUPPORT, '2001:db8::1 is not of the first',
                     [own, '2001:db8::1'])
        for wrong in ('0.0.0.0', '127.0.0.1', '224.0.0.1', '::', 'ff02::1'):
            self.refused(errno.EINVAL, f'{wrong} cannot be', [wrong, own])
        self.refused(errno.ENOSPC, '17 peers are more than the 16',
                     [own] + [f'192.0.2.{i}' for i in range(16)])

    def test_they_outlive_the_own_pool(self):
        self.datapath.set_nat_peers(self.PEERS)
        self.datapath.set_nat_pools([])
        self.assertEqual(list(self.PEERS), self.datapath.nat_peers())
