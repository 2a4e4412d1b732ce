# SPDX-License-Identifier: Apache-2.0
"""The API refuses requests that proxy nodes could not serve."""

import json
import uuid

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import capacity
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller import base

_ID = '5a0c5f0e-0000-4000-8000-{:012}'
LB, LISTENER, POOL, MEMBER = map(_ID.format, range(4))
ADDRESSES = ['198.51.100.7', '2001:db8:1::7']


def tree(listener=None, pool=None, member='198.18.10.11', **more):
    return {
        'vip_address': unit.VIP, 'flavor': {},
        'listeners': {LISTENER: {
            'protocol': 'TCP', 'protocol_port': 80, 'default_pool_id': POOL,
            **(listener or {})}},
        'pools': {POOL: {
            'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP_PORT',
            'members': {MEMBER: unit.member(member)}, **(pool or {})}},
        **more}


class TestProxyCapacity(base.StoreTestCase):

    def node(self, host='p', number=0, **state):
        self.store.nodes.register(
            host, role=rows.PROXY, addresses=ADDRESSES if not number
            else [f'198.51.100.{number}'])
        with self.store.database.write() as session:
            session.get(models.Node, host).state = json.dumps(state)

    def request(self, change):
        return self.store.requests.add(change, str(uuid.uuid4()))

    def create(self, fields, key=LB):
        self.request({
            'object': 'loadbalancer', 'action': 'create', 'object_id': key,
            'load_balancer_id': key, 'fields': fields})

    def add_listener(self, key, port, protocol='HTTP'):
        self.request({
            'object': 'listener', 'action': 'create', 'object_id': key,
            'load_balancer_id': LB, 'fields': {
                'protocol': protocol, 'protocol_port': port}})

    def store_document(self, fields):
        self.store.load_balancers.create(spec.document(LB, fields))

    def refused(self, function, *arguments):
        return self.assertRaises(errors.Refused, function, *arguments)

    def test_option_that_needs_a_proxy_node_is_named(self):
        http = {'protocol': 'HTTP'}
        for fields, option, value, instead in (
                (tree(http, http), 'protocol', 'HTTP', 'use TCP'),
                (tree({'protocol': 'PROMETHEUS', 'default_pool_id': None}),
                 'protocol', 'PROMETHEUS', 'leave this listener out'),
                (tree({}, {'protocol': 'PROXYV2'}), 'protocol', 'PROXYV2',
                 'use TCP'),
                (tree({}, {'lb_algorithm': 'ROUND_ROBIN'}), 'lb_algorithm',
                 'ROUND_ROBIN', 'use SOURCE_IP_PORT'),
                (tree({'connection_limit': 9}), 'connection_limit', 9,
                 'leave it out'),
                (tree(flavor={'forwarding': 'proxy'}), 'flavor', 'proxy',
                 'use another flavor')):
            with self.subTest(option=option, value=value):
                error = self.refused(self.create, fields)
                self.assertEqual((
                    option, f'the value {value!r} needs a proxy node, and '
                    'this cloud has none'), (error.option, error.why))
                self.assertTrue(error.instead.startswith(instead))
                self.assertIsNone(self.store.load_balancers.get(LB))

    def test_proxy_node_out_of_service_counts_as_none(self):
        http = {'protocol': 'HTTP'}
        self.node()
        self.store.nodes.set_in_service('p', False)
        self.refused(self.create, tree(http, http))
        self.store.nodes.set_in_service('p', True)
        self.create(tree(http, http))

    def test_only_what_is_new_needs_a_proxy_node(self):
        """The last proxy node is gone: other changes are still possible."""
        self.store_document(tree({'protocol': 'HTTP'}, {'protocol': 'HTTP'}))
        self.request({'object': 'member', 'action': 'update',
                      'object_id': MEMBER, 'pool_id': POOL,
                      'fields': {'weight': 7}})
        self.refused(self.add_listener, _ID.format(7), 81)

    def test_listeners_need_room_on_proxy_nodes(self):
        http = {'protocol': 'HTTP'}
        self.node(services=3, services_max=3)
        error = self.refused(self.create, tree(http, http))
        self.assertEqual('the proxy nodes have no room for it', error.why)
        self.assertIn('p has 3 of 3 listeners', error.for_operator)
        self.node('q', 8, services=2, services_max=3)
        self.create(tree(http, http))

    def test_placed_load_balancer_needs_room_on_all_its_proxy_nodes(self):
        self.store_document(tree({'protocol': 'HTTP'}, {'protocol': 'HTTP'}))
        self.node(services=3, services_max=3)
        self.node('q', 8, services=2, services_max=3)
        self.store.placements.place(LB, ['p', 'q'])
        self.refused(self.add_listener, _ID.format(7), 81)

    def test_proxy_nodes_have_no_say_about_room_on_lb_nodes(self):
        self.node(services=3, services_max=3, members=0, members_max=0)
        self.create(tree())

    def test_addresses_of_proxy_nodes_are_no_vips_or_members(self):
        """Out of service as well; nothing was reported."""
        self.node()
        self.store.nodes.set_in_service('p', False)
        for address in ADDRESSES:
            error = self.refused(self.create, tree(member=address))
            self.assertEqual('address', error.option)
            self.assertIn('the proxy node p', error.for_operator)
            error = self.refused(self.create, tree(vip_address=address))
            self.assertEqual('vip_address', error.option)

    def test_proxy_nodes_are_the_members_that_lb_nodes_need_room_for(self):
        pool = {'protocol': 'HTTP', 'members': {
            _ID.format(10 + number): unit.member(f'198.18.10.{number + 1}')
            for number in range(9)}}
        for flavor, nodes, members in (({}, 0, 2), ({'replicas': 3}, 0, 3),
                                       ({'replicas': 3}, 4, 4)):
            document = spec.document(LB, tree({'protocol': 'HTTP'}, pool,
                                              flavor=flavor))
            document['proxies'] = {'listeners': [], 'nodes': {
                f'p{number}': {'addresses': ADDRESSES, 'weight': 1}
                for number in range(nodes)}}
            self.assertEqual(capacity.Need(1, members, 9),
                             capacity.need(document))
