# SPDX-License-Identifier: Apache-2.0
"""Register proxy nodes and the addresses that LB nodes reach them at."""

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.manage import base


class TestProxyNodes(base.ManageTestCase):

    def setUp(self):
        super().setUp()
        self.configure('[nodes]\n'
                       'transport_url = rabbit://c:s@broker:5671/{vhost}\n')

    def create(self, host, *addresses):
        words = [word for address in addresses
                 for word in ('--address', address)]
        return 'node', 'create', host, '--role', 'proxy', *words

    def addresses(self, host):
        return self.listed('node', 'show', host)['proxy_addresses']

    def test_role_and_addresses_are_registered(self):
        self.done('node', 'create', 'lb1')
        self.done(*self.create('p1', '198.51.100.7', '2001:DB8::7'))
        self.assertEqual(
            [('lb1', 'lb'), ('p1', 'proxy')],
            [(row['host'], row['role'])
             for row in self.listed('node', 'list')])
        self.assertEqual(['198.51.100.7', '2001:db8::7'],
                         self.addresses('p1'))
        self.assertEqual([], self.addresses('lb1'))
        nodes = {node.host: node for node in self.store.nodes.all()}
        self.assertEqual(
            (rows.PROXY, ('198.51.100.7', '2001:db8::7')),
            (nodes['p1'].role, nodes['p1'].proxy_addresses))
        self.assertEqual((rows.LB, ()), (nodes['lb1'].role,
                                         nodes['lb1'].proxy_addresses))

    def test_report_changes_neither_role_nor_addresses(self):
        self.done(*self.create('p1', '198.51.100.7'))
        self.seen('p1', {'role': 'lb', 'proxy_addresses': ['203.0.113.1'],
                         'addresses': ['192.0.2.9']})
        row = self.listed('node', 'show', 'p1')
        self.assertEqual(('proxy', ['198.51.100.7']),
                         (row['role'], row['proxy_addresses']))

    def test_wrong_addresses_are_refused_by_name(self):
        self.done(*self.create('p1', '198.51.100.7'))
        self.seen('lb1', {'addresses': ['192.0.2.1']})
        self.store.nodes.register('lb2', nat_pools=['192.0.2.32/28'])
        self.store.load_balancers.create(unit.document())
        vip = unit.document()['vip_address']
        member, *_ = sorted(spec.member_addresses(unit.document()))
        for addresses, reason in (
                ((), 'a proxy node needs an address'),
                (('198.51.100.8', '198.51.100.8'), 'is given twice'),
                (('2001:db8::8', '2001:DB8:0::8'), 'is given twice'),
                (('198.51.100.8', '198.51.100.9'), 'two IPv4 addresses'),
                (('2001:db8::8', '2001:db8::9'), 'two IPv6 addresses'),
                (('198.51.100.7',), 'an address of node p1'),
                (('192.0.2.1',), 'an address of node lb1'),
                (('192.0.2.33',), 'a pool for NAT of node lb2'),
                ((vip,), 'the VIP of load balancer'),
                ((member,), 'a member of load balancer'),
                (('p2',), 'no address'),
                (('::ffff:198.51.100.8',), 'IPv4 address inside'),
                (('224.0.0.1',), 'no address of a host'),
                (('127.0.0.1',), 'no address of a host')):
            with self.subTest(addresses=addresses):
                error = self.refused(*self.create('p2', *addresses))
                self.assertIn('proxy_addresses', error)
                self.assertIn(reason, error)
        self.assertIn('only proxy nodes have', self.refused(
            'node', 'create', 'lb3', '--address', '198.51.100.8'))
        self.assertIn('only LB nodes have', self.refused(
            *self.create('p2', '198.51.100.8'), '--nat-pool',
            '192.0.2.48/28'))
        self.assertEqual(['lb1', 'lb2', 'p1'],
                         sorted(self.store.nodes.hosts()))

    def test_creating_again_keeps_or_replaces_addresses(self):
        self.done(*self.create('p1', '198.51.100.7'))
        self.done(*self.create('p1'))
        self.assertEqual(['198.51.100.7'], self.addresses('p1'))
        self.done('node', 'create', 'p1')
        self.assertEqual(['198.51.100.7'], self.addresses('p1'))
        self.done(*self.create('p1', '198.51.100.8'))
        self.assertEqual(['198.51.100.8'], self.addresses('p1'))

    def test_role_of_registered_node_cannot_be_changed(self):
        self.done(*self.create('p1', '198.51.100.7'))
        self.assertIn('role', self.refused('node', 'create', 'p1',
                                           '--role', 'lb'))
        self.done('node', 'create', 'lb1')
        self.assertIn('role', self.refused(
            *self.create('lb1', '198.51.100.8')))
        self.assertEqual([], self.addresses('lb1'))

    def test_addresses_are_changed_and_their_load_balancers_marked(self):
        self.done(*self.create('p1', '198.51.100.7'))
        self.done('node', 'create', 'lb1')
        key = unit.document()['id']
        self.store.load_balancers.create(unit.document())
        self.store.placements.place(key, ['p1'])
        with self.store.database.write() as session:
            session.query(models.Work).delete()
        self.done('node', 'addresses', 'p1', '198.51.100.9', '2001:db8::9')
        self.assertEqual(['198.51.100.9', '2001:db8::9'],
                         self.addresses('p1'))
        self.assertEqual({key}, self.store.work.marked([key]))
        self.assertIn('needs an address',
                      self.refused('node', 'addresses', 'p1'))
        self.assertIn('only proxy nodes', self.refused(
            'node', 'addresses', 'lb1', '198.51.100.8'))
        self.assertIn('p9 is unknown', self.refused(
            'node', 'addresses', 'p9', '198.51.100.8'))

    def test_nat_pools_are_for_lb_nodes_and_avoid_proxies(self):
        self.done(*self.create('p1', '198.51.100.7'))
        self.done('node', 'create', 'lb1')
        self.assertIn('only LB nodes have', self.refused(
            'node', 'nat-pools', 'p1', '192.0.2.48/28'))
        self.assertIn('198.51.100.7 of p1', self.refused(
            'node', 'nat-pools', 'lb1', '198.51.100.0/28'))

    def test_placement_has_the_role_of_its_node(self):
        self.done(*self.create('p1', '198.51.100.7'))
        key = unit.document()['id']
        self.store.load_balancers.create(unit.document())
        self.store.placements.place(key, ['p1', 'lb9'])
        self.assertEqual({'p1': rows.PROXY, 'lb9': rows.LB}, {
            row.host: row.role for row in self.store.placements.select([key])})
