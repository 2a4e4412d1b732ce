# SPDX-License-Identifier: Apache-2.0
"""Each option that is accepted: what it does on the LB nodes."""

import types

from lab import cloud
from lab.fabric import members
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import api
from octavia_xdp_provider.tests.e2e.support import effects
from octavia_xdp_provider.tests.e2e.support import node_view
from octavia_xdp_provider.tests.e2e.support import rows

FLAVOR = {'encapsulation': 'gue', 'member_port': 'rewrite',
          'new_flow_rate': 500, 'new_flow_burst': 600}
ADMIN = 'admin_state_up'


class NodeCase(api.ApiTestCase):
    """All nodes have what is ACTIVE in Octavia: no test waits."""

    def views(self, balancer):
        return {node: node_view.look(self, node, balancer)
                for node in topology.NODES}

    def wait_all_routes(self, vips, hosts=topology.NODES):
        for vip in vips:
            self.wait_routes(types.SimpleNamespace(vip_address=vip), hosts)


class TestAccepted(NodeCase):
    """One load balancer with all rows, changed until it has all values."""

    def setUp(self):
        super().setUp()
        self.asked = {kind: {} for kind in rows.ROWS}
        self.looked_at = set()
        self.make()

    def make(self):
        """All rows in one populated creation."""
        def pool(name, host):
            return {'name': name, 'protocol': 'UDP',
                    'lb_algorithm': 'SOURCE_IP_PORT', 'members': [{
                        'name': host, 'address': members.address(host),
                        'protocol_port': 5353}]}
        first = {kind: rows.values(kind, 'first') for kind in rows.ROWS}
        self.balancer = self.create(
            None, 'loadbalancer', **first['loadbalancer'], provider='xdp',
            vip_subnet_id=self.subnet('vips-v4'),
            flavor_id=self.create_flavor(**FLAVOR),
            additional_vips=[{'subnet_id': self.subnet('vips-v6')}],
            pools=[
                pool('first', 'member1'), pool('second', 'member2'),
                {**first['pool'], 'healthmonitor': first['healthmonitor'],
                 'members': [{**first['member'],
                              'subnet_id': self.subnet('members-v4')}]}],
            listeners=[
                {**first['listener'], 'default_pool': {'name': 'first'}},
                {'name': 'pool', 'protocol': 'UDP',
                 'protocol_port': effects.POOL,
                 'default_pool': {'name': first['pool']['name']}}])
        self.first = first
        self.vips = [self.balancer['vip_address'], *(
            vip['ip_address'] for vip in self.balancer['additional_vips'])]
        of_pools = {pool.name: pool for pool in self.sdk.pools(
            loadbalancer_id=self.balancer['id'])}
        self.pools = {name: pool.id for name, pool in of_pools.items()}
        own = of_pools[first['pool']['name']]
        member, = self.sdk.members(own)
        listener = next(listener for listener in self.sdk.listeners(
            load_balancer_id=self.balancer['id'])
            if listener.protocol_port == effects.LISTENER)
        self.ids = {
            'loadbalancer': self.balancer['id'], 'listener': listener.id,
            'pool': own.id, 'member': member.id,
            'healthmonitor': own.health_monitor_id}

    def change(self, kind, key=None, **fields):
        """Update an object; Octavia shows what was asked for."""
        shown = self.update(
            self.balancer['id'], kind, key or self.ids[kind],
            self.ids['pool'] if kind == 'member' else None, **fields)
        self.assert_shown(fields, shown)

    def expect(self, kind, **values):
        """Look at rows of an object on each node.

        :param values: of rows, in the words of effects.py where the lab's
            own value is none.
        """
        self.asked[kind].update(values)
        views = self.views(self.balancer)
        for row in values:
            effect = effects.EFFECTS[kind][row]
            if not isinstance(effect, effects.OnNodes):
                continue
            wanted = (effect.wanted(self.asked[kind]) if effect.wanted
                      else values[row])
            for node, view in views.items():
                with self.subTest(kind=kind, row=row, node=node):
                    self.assertEqual(wanted, effect.found(view))
            self.looked_at.add((kind, row))

    def test_each_accepted_row_does_what_it_says_on_each_node(self):
        self.check_creation()
        self.check_rows_without_effect()
        self.check_changes()
        self.check_admin_states()
        self.assertEqual(
            {(kind, row) for kind, table in effects.EFFECTS.items()
             for row, effect in table.items()
             if isinstance(effect, effects.OnNodes)}, self.looked_at)

    def check_creation(self):
        self.wait_all_routes(self.vips)
        self.expect('loadbalancer', **self.first['loadbalancer'],
                    additional_vips=set(self.vips[1:]), flavor=FLAVOR)
        self.expect('listener', **self.first['listener'],
                    default_pool_id=members.address('member1'))
        for kind in 'pool', 'member', 'healthmonitor':
            self.expect(kind, **self.first[kind])

    def check_rows_without_effect(self):
        """They are shown, and nothing of a node is another one."""
        before = self.views(self.balancer)
        for kind in 'loadbalancer', 'listener':
            self.change(kind, **{
                row: value for row, value in rows.values(kind, 'then').items()
                if isinstance(effects.EFFECTS[kind][row], effects.Shown)})
        self.assertEqual(before, self.views(self.balancer))

    def check_changes(self):
        """Each row again, with another value."""
        then = {kind: {row: value for row, value
                       in rows.values(kind, 'then').items() if row != ADMIN}
                for kind in rows.ROWS}
        algorithm = then['pool'].pop('lb_algorithm')
        self.change('pool', self.pools['first'], lb_algorithm=algorithm)
        self.expect('pool', lb_algorithm=algorithm)
        for kind in 'pool', 'member', 'healthmonitor':
            self.change(kind, **then[kind])
            self.expect(kind, **then[kind])
        self.change('listener', default_pool_id=self.pools['second'],
                    **then['listener'])
        self.expect('listener', default_pool_id=members.address('member2'),
                    **then['listener'])

    def check_admin_states(self):
        """From below, so that what is above is there to be switched off."""
        off = {ADMIN: False}
        for kind in 'healthmonitor', 'member':
            self.change(kind, **off)
            self.expect(kind, **off)
        self.change('loadbalancer', **off)
        self.expect('loadbalancer', **off)
        self.wait_all_routes(self.vips, ())
        self.change('loadbalancer', **{ADMIN: True})
        self.expect('loadbalancer', **{ADMIN: True})
        self.wait_all_routes(self.vips)
        # The VIP stays as long as one of its listeners is served.
        for kind, hosts in ('pool', topology.NODES), ('listener', ()):
            self.expect(kind, **{ADMIN: True})
            self.change(kind, **off)
            self.expect(kind, **off)
            self.wait_all_routes(self.vips, hosts)


class TestVips(NodeCase):

    def test_a_vip_of_a_subnet_of_a_network_and_of_a_port_is_announced(self):
        network = cloud.connect(self.lab).network
        subnet = network.find_subnet('vips-v4')
        port = network.create_port(network_id=subnet.network_id, fixed_ips=[
            {'subnet_id': subnet.id}])
        self.addCleanup(network.delete_port, port)
        asked = ({'vip_subnet_id': subnet.id},
                 {'vip_network_id': subnet.network_id},
                 {'vip_port_id': port.id, 'vip_subnet_id': subnet.id})
        made = [self.begin(**fields) for fields in asked]
        for fields, balancer in zip(asked, made, strict=True):
            with self.subTest(fields=sorted(fields)):
                self.settle(balancer['id'])
                shown = self.show('loadbalancer', balancer['id'])
                self.assert_shown(fields, shown)
                vip = shown['vip_address']
                self.wait_all_routes([vip])
                for view in self.views(shown).values():
                    self.assertEqual({vip}, view.vips)
        self.assertEqual(port.fixed_ips[0]['ip_address'], vip)

    def begin(self, **fields):
        """A load balancer with a member, which is PENDING_CREATE."""
        status, answer = self.request(
            'post', 'loadbalancers', 'loadbalancer', provider='xdp',
            name=self.unique('vip'), listeners=self.listeners([{
                'name': 'member1', 'protocol_port': 80,
                'address': members.address('member1')}]), **fields)
        self.assertEqual(201, status, answer)
        self.addCleanup(self.remove, answer['id'])
        return answer
