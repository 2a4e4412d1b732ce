# SPDX-License-Identifier: Apache-2.0
"""The API refuses requests that LB nodes would refuse."""

import json
import uuid

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import load_balancers
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.controller import requesting


class TestCapacity(store_base.StoreTestCase):

    def node(self, host, in_service=True, pools=(), **state):
        """:param pools: for NAT, that are registered."""
        with self.store.database.write() as session:
            session.merge(models.Node(
                host=host, last_seen=0, in_service=in_service,
                state=json.dumps(state), nat_pools=json.dumps(list(pools))))

    def place(self, key, *hosts):
        with self.store.database.write() as session:
            for host in hosts:
                session.add(models.Placement(load_balancer_id=key, host=host,
                                             synced_generation=0))

    def request(self, change):
        return self.store.requests.add(change, str(uuid.uuid4()))

    def create(self, number, **more):
        """A load balancer with one listener and two members."""
        key = f'lb{number}'
        self.request({
            'object': 'loadbalancer', 'action': 'create', 'object_id': key,
            'load_balancer_id': key,
            'fields': unit.numbered_tree(number, **more)})
        return key

    def assertTold(self, text, error):
        """The operator is told this, and the tenant nothing of it."""
        self.assertIn(text, error.for_operator)
        self.assertNotRegex(
            str(error), r'\b[ab] has|LB node [ab]|of a:|\d/\d|1 of 1')

    def test_nothing_is_refused_without_nodes_or_reports(self):
        self.create(1)
        self.node('a')
        self.create(2)

    def test_creation_needs_a_node_with_room(self):
        self.node('a', services=0, services_max=1)
        self.place(self.create(1), 'a')
        error = self.assertRaises(errors.Refused, self.create, 2)
        self.assertTold('a has 1 of 1 services', error)
        self.assertIsNone(self.store.load_balancers.get('lb2'))
        self.node('b', services=0, services_max=1)
        self.create(2)

    def test_nodes_out_of_service_have_no_room(self):
        self.node('a', services=0, services_max=1)
        self.place(self.create(1), 'a')
        self.node('b', in_service=False, services=0, services_max=100)
        self.assertRaises(errors.Refused, self.create, 2)

    def test_members_need_room(self):
        self.node('a', members=0, members_max=3)
        self.place(self.create(1), 'a')
        self.assertRaises(errors.Refused, self.create, 2)

    def test_each_vip_needs_its_own_services(self):
        self.node('a', services=0, services_max=1)
        self.assertRaises(
            errors.Refused, self.create, 1,
            additional_vips=[{'ip_address': '2001:db8::1'}])

    def test_change_needs_room_on_each_of_its_nodes(self):
        self.store.load_balancers.create(unit.document())
        self.place('lb', 'a', 'b')
        self.node('a', services=1, services_max=10)
        self.node('b', services=1, services_max=1)
        listener = {'object': 'listener', 'action': 'create',
                    'object_id': 'l2', 'load_balancer_id': 'lb',
                    'fields': {'protocol': 'TCP', 'protocol_port': 81}}
        error = self.assertRaises(errors.Refused, self.request, listener)
        self.assertTold('b has 1 of 1 services', error)
        # A change that needs no more entries is accepted on full nodes.
        self.request({'object': 'listener', 'action': 'update',
                      'object_id': 'listener', 'load_balancer_id': 'lb',
                      'fields': {'name': 'new'}})
        self.node('b', services=1, services_max=2)
        self.request(listener)

    def test_pending_changes_count(self):
        self.node('a', services=0, services_max=2)
        for number in (1, 2):
            # The node has not seen either of them.
            self.place(self.create(number), 'a')
        self.assertRaises(errors.Refused, self.create, 3)

    def test_member_cannot_be_an_lb_node(self):
        self.node('a', addresses=['198.18.10.12', '2001:db8::12'])
        error = self.assertRaises(errors.Refused, self.create, 1)
        self.assertEqual('address', error.option)
        self.assertTold('LB node a', error)

    def test_vip_cannot_be_an_lb_nodes_or_a_routers(self):
        self.node('a', in_service=False, addresses=['203.0.113.1'],
                  bgp_neighbours={'203.0.113.2': 'up'}, uplinks=[
                      {'name': 'eth0', 'v4': {'address': '203.0.113.3'},
                       'v6': {'address': '2001:DB8::1'}},
                      {'name': 'eth1', 'v4': {'address': None}}])
        for number in (1, 2, 3):
            error = self.assertRaises(errors.Refused, self.create, number)
            self.assertEqual('vip_address', error.option)
            self.assertTold('LB node a', error)
            self.assertNotRegex(str(error), 'LB node|BGP')
        error = self.assertRaises(
            errors.Refused, self.create, 4,
            additional_vips=[{'ip_address': '2001:db8::1'}])
        self.assertEqual('additional_vips', error.option)
        self.create(4)

    def test_vips_older_than_a_node_stay(self):
        self.store.load_balancers.create(unit.document())
        self.node('a', addresses=[unit.VIP])
        self.request(requesting.ADDED)

    def test_node_blocks_few_addresses(self):
        self.node('a', bgp_neighbours=dict.fromkeys(
            (f'203.0.113.{number}' for number in range(1, 200)), 'up'))
        refused = 0
        for number in range(1, 200):
            try:
                self.create(number)
            except errors.Refused:
                refused += 1
        self.assertEqual(64, refused)

    def test_members_older_than_a_node_stay(self):
        self.store.load_balancers.create(unit.document())
        self.node('a', addresses=['198.18.10.12'])
        self.request(requesting.member('delete', 'm1'))

    NAT = {'forwarding': 'nat'}

    def able(self, host, *pools, **more):
        self.node(host, pools=pools, document_version=spec.VERSION,
                  nat={'pools': list(pools)}, **more)

    def test_nat_needs_a_node_that_supports_it(self):
        self.create(1, flavor=self.NAT)  # No node has said what it can.
        self.node('a', document_version=spec.VERSION)
        self.able('b', '2001:db8:0:1::/120')
        error = self.assertRaises(errors.Refused, self.create, 2,
                                  flavor=self.NAT)
        self.assertEqual('flavor', error.option)
        self.assertTold('of a: it has no [nat] pools', error)
        self.create(3)  # Others have no need of it.
        self.able('c', '198.51.100.0/28', in_service=False)
        self.assertRaises(errors.Refused, self.create, 4, flavor=self.NAT)
        self.able('c', '198.51.100.0/28')
        self.create(5, flavor=self.NAT)

    def test_nat_without_members_needs_a_pool_of_any_family(self):
        self.node('a')
        bare = {'flavor': self.NAT, 'listeners': {}, 'pools': {}}
        tree = unit.tree(**bare)
        request = {'object': 'loadbalancer', 'action': 'create',
                   'object_id': 'x', 'load_balancer_id': 'x', 'fields': tree}
        self.assertRaises(errors.Refused, self.request, request)
        self.able('a', '2001:db8:0:1::/120')
        self.request(request)

    def test_members_of_a_family_without_a_pool_are_refused(self):
        self.able('a', '198.51.100.0/28')
        self.store.load_balancers.create(unit.document(flavor=self.NAT))
        self.place('lb', 'a')
        request = {'object': 'member', 'action': 'create', 'object_id': 'm6',
                   'pool_id': 'pool', 'fields': unit.member(
                       '2001:db8:18::11')}
        error = self.assertRaises(errors.Refused, self.request, request)
        self.assertIn('IPv6 members', str(error))
        self.able('a', '198.51.100.0/28', '2001:db8:0:1::/120')
        self.request(request)

    def test_member_cannot_be_in_a_nat_pool(self):
        self.able('a', '198.18.10.0/28')
        for flavor in ({}, self.NAT):
            error = self.assertRaises(errors.Refused, self.create, 1,
                                      flavor=flavor)
            self.assertEqual('address', error.option)
            self.assertTold('of the LB node a', error)

    def test_unregistered_nat_pools_block_no_member(self):
        self.node('a', document_version=spec.VERSION,
                  nat={'pools': ['0.0.0.0/0', '::/0']})
        self.create(1)
        # Nor is it given what it would be able to do by them.
        error = self.assertRaises(errors.Refused, self.create, 2,
                                  flavor=self.NAT)
        self.assertTold('0.0.0.0/0, ::/0 are not registered', error)
        # Those that are count, whatever it says, and out of service too.
        self.node('a', False, pools=['198.18.10.0/28'])
        self.assertRaises(errors.Refused, self.create, 3)


class TestAddresses(requesting.RequestsTestCase):
    """A VIP is never a member, in whichever order they come."""

    def small(self, key, vip, *members, **more):
        """A load balancer with these members."""
        return requesting.created(key, vip_address=vip, listeners={}, pools={
            f'pool-{key}': {
                'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP_PORT',
                'members': {f'm{number}': unit.member(address, **more)
                            for number, address in enumerate(members)}}})

    def promote(self, key):
        with self.store.database.write() as session:
            row = session.get(models.LoadBalancer, key)
            load_balancers._set_document(
                session, row, json.loads(row.pending)['expected'],
                base.next_generation(session))
            row.pending = None

    def test_vip_has_one_load_balancer(self):
        self.request(self.small('one', '203.0.113.10'))
        self.assertRaises(errors.Conflict, self.request,
                          self.small('two', '203.0.113.10'))
        self.assertIsNone(self.store.load_balancers.get('two'))

    def test_member_cannot_be_a_vip(self):
        self.request(self.small('one', '203.0.113.10', '198.18.10.11'))
        for more in ({}, {'monitor_address': '203.0.113.10'}):
            address = '198.18.10.12' if more else '203.0.113.10'
            error = self.assertRaises(
                errors.Refused, self.request,
                self.small('two', '203.0.113.11', address, **more))
            self.assertEqual('address', error.option)

    def test_vip_cannot_be_a_member(self):
        self.request(self.small('one', '203.0.113.10', '203.0.113.11'))
        error = self.assertRaises(errors.Refused, self.request,
                                  self.small('two', '203.0.113.11'))
        self.assertEqual('vip_address', error.option)

    def test_own_vip_cannot_be_a_member(self):
        error = self.assertRaises(
            errors.Refused, self.request,
            self.small('one', '2001:db8::1', '2001:db8::2',
                       monitor_address='2001:db8::1'))
        self.assertIn('2001:db8::1', str(error))

    def test_address_is_reserved_until_its_removal_is_committed(self):
        self.request(self.small('one', '203.0.113.10', '203.0.113.11'))
        self.promote('one')
        self.request({'object': 'member', 'action': 'delete',
                      'object_id': 'm0', 'pool_id': 'pool-one'}, 'r')
        self.assertRaises(errors.Refused, self.request,
                          self.small('two', '203.0.113.11'))
        self.promote('one')
        self.request(self.small('two', '203.0.113.11'))

    def test_address_is_reserved_until_its_addition_is_dropped(self):
        self.request(self.small('one', '203.0.113.10'))
        self.promote('one')
        self.request({'object': 'member', 'action': 'create',
                      'object_id': 'm0', 'pool_id': 'pool-one',
                      'fields': unit.member('203.0.113.11')}, 'r')
        self.assertRaises(errors.Refused, self.request,
                          self.small('two', '203.0.113.11'))
        self.store.requests.cancel('r')
        self.request(self.small('two', '203.0.113.11'))

    def test_load_balancers_may_share_a_member(self):
        self.request(self.small('one', '203.0.113.10', '198.18.10.11'))
        self.request(self.small('two', '203.0.113.11', '198.18.10.11'))

    def test_load_balancers_with_the_same_dscp_cannot_share_a_member(self):
        def of(key, vip, address):
            return self.small(key, vip, address) | {'fields': dict(
                self.small(key, vip, address)['fields'],
                flavor={'encapsulation': 'dscp', 'dscp': 5})}
        self.request(of('one', '203.0.113.10', '198.18.10.11'))
        self.request(of('two', '203.0.113.11', '198.18.10.12'))
        error = self.assertRaises(
            errors.Refused, self.request,
            of('three', '203.0.113.12', '198.18.10.11'))
        self.assertIn('DSCP', error.for_operator)
