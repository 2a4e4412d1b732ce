# SPDX-License-Identifier: Apache-2.0
"""Members on hypervisors of listeners that proxy nodes serve."""

import ipaddress

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.controller.store import ways
from octavia_xdp_provider.controller.zero_touch import keys
from octavia_xdp_provider.controller.zero_touch import tokens
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import hypervisors
from octavia_xdp_provider.tests.unit.controller import ports

TOKENS = ipaddress.ip_network('100.64.0.0/10')
PROXIES = '198.18.30.0/24'
VIP = '203.0.113.10'
LB, LISTENER, POOL = map(hypervisors.uuid, (10, 11, 12))
M1, M2 = map(hypervisors.uuid, (13, 14))
VIP_GROUP = hypervisors.uuid(91)


class ProxiedCase(hypervisors.ZeroTouchTestCase):
    """Load balancers with a listener of HTTP."""

    def create(self, key=LB, **more):
        tree = self.tree()
        listener, pool = tree['listeners'].popitem()[1], (
            tree['pools'].popitem()[1])
        members = {M1: pool['members']['m1'], M2: pool['members']['m2']}
        tree['listeners'] = {LISTENER: {
            **listener, 'protocol': 'HTTP', 'default_pool_id': POOL}}
        tree['pools'] = {POOL: {**pool, 'protocol': 'HTTP',
                                'healthmonitor': None, 'members': members}}
        tree.update(more)
        self.store.load_balancers.create(spec.document(key, tree))
        self.store.placements.place(key, ('lb1',), decided_on=frozenset())

    def converge(self, key=LB):
        for _ in range(4):
            self.step()
            for host in (self.hv1, self.hv2):
                host.pass_()
            if self.row(key):
                self.node_syncs(key)
        self.step()
        for host in (self.hv1, self.hv2):
            host.pass_()

    def sent(self, key=LB):
        """Return the members in the document for proxy nodes."""
        return views.for_proxy(self.row(key).document)['pools'][POOL][
            'members']


class TestWithoutTokens(ProxiedCase):

    MODE = 'preferred'

    def test_members_of_proxied_pools_are_reached_at_their_addresses(self):
        self.create()
        self.converge()
        self.assertEqual(set(hypervisors.ADDRESSES.values()), {
            member['address'] for member in self.sent().values()})
        self.assertFalse(any('token' in member
                             for member in self.sent().values()))
        self.assertEqual({'direct'}, {
            way.way for way in self.store.ways.select(LB)})
        self.assertEqual(set(), self.hv1.keys())


class TestTokens(ProxiedCase):

    OPTIONS = hypervisors.OPTIONS + f'''
proxy_networks = {PROXIES}
[proxy]
token_networks = {TOKENS}
'''

    def entries(self, host):
        return {entry['member_id']: entry for row in host.held.values()
                for entry in row['document'].get('entries', ())}

    def rules(self, member='m1'):
        """Return the rules of a port for connections of proxies."""
        rules = self.hv1.held[hypervisors.PORTS[member]]['document']['rules']
        return [rule for rule in rules if rule['remote_network'] == PROXIES]

    def test_entry_and_tunnel_of_a_member_agree(self):
        self.create()
        self.converge()
        sent, entries = self.sent(), self.entries(self.hv1)
        self.assertEqual({M1, M2}, sent.keys())
        for key, address in zip((M1, M2), hypervisors.ADDRESSES.values(),
                                strict=True):
            member, entry = sent[key], entries[key]
            self.assertEqual(
                (address, 8080, entry['vip'], entry['key'], '198.18.20.1'),
                (member['address'], member['protocol_port'], member['token'],
                 member['tunnel']['key'], member['tunnel']['address']))
            self.assertIn(ipaddress.ip_address(member['token']), TOKENS)
            self.assertEqual(
                (address, 8080, 8080, 6, VIP),
                (entry['address'], entry['port'], entry['vip_port'],
                 entry['protocol'], entry['judged_as']))
        self.assertEqual(2, len({member['token'] for member in sent.values()}))
        self.assertEqual(set(), spec.undecided(self.row(LB).document))

    def test_same_address_in_two_projects_has_two_tokens(self):
        self.create()
        other = hypervisors.uuid(20)
        self.create(other, vip_address='203.0.113.11')
        self.converge()
        self.node_syncs(other)
        self.assertEqual(4, len({member['token'] for key in (LB, other)
                                 for member in self.sent(key).values()}))

    def test_token_stays_when_a_vm_moves(self):
        self.create()
        self.converge()
        before = self.sent()[M1]
        self.ports[0] = hypervisors.port('m1', **{'binding:host_id': 'hv2'})
        self.converge()
        after = self.sent()[M1]
        self.assertEqual(before['token'], after['token'])
        self.assertEqual('198.18.20.2', after['tunnel']['address'])
        self.assertEqual(after['tunnel']['key'],
                         self.entries(self.hv2)[M1]['key'])

    def test_token_is_kept_until_the_quarantine_of_its_key_is_over(self):
        self.create()
        self.converge()
        token = self.sent()[M1]['token']

        def drop(document):
            del document['pools'][POOL]['members'][M1]
            return document
        self.store.load_balancers.change(LB, drop)
        self.converge()
        self.assertIn(token, {key.vip for key in self.store.ways.host_keys()})
        self.assertNotIn(M1, self.entries(self.hv1))
        self.now += hypervisors.QUARANTINE_S + 1
        self.converge()
        self.assertNotIn(token,
                         {key.vip for key in self.store.ways.host_keys()})

    def test_groups_judge_proxies_as_the_vips_port(self):
        for admitted, rule in (
                (True, {}),
                (True, {'remote_ip_prefix': '203.0.113.0/24'}),
                (False, {'remote_ip_prefix': '198.51.100.0/24'}),
                (False, {'port_range_min': 80, 'port_range_max': 80}),
                (False, {'protocol': 'udp'})):
            with self.subTest(rule=rule):
                self.neutron = hypervisors.Neutron(
                    self.ports, [ports.rule(**rule)])
                self.worker = self.new_worker()
                if self.row(LB) is None:
                    self.create()
                self.converge()
                wanted = [{
                    'ip_version': 4, 'protocol': 6, 'ports': [8080, 8080],
                    'remote_network': PROXIES, 'address_set': None}]
                self.assertEqual(wanted if admitted else [], self.rules())

    def test_group_of_the_vips_port_lets_proxies_in(self):
        vip_port = ports.port(hypervisors.uuid(50), fixed_ips=[
            {'subnet_id': 'vips', 'ip_address': VIP}],
            security_groups=[])
        self.ports.append(vip_port)
        self.neutron = hypervisors.Neutron(
            self.ports, [ports.rule(remote_group_id=VIP_GROUP)])
        self.worker = self.new_worker()
        self.create()
        self.converge()
        self.assertEqual([], self.rules())
        vip_port['security_groups'] = [VIP_GROUP]
        self.converge()
        self.assertEqual(1, len(self.rules()))
        vip_port['security_groups'] = []
        self.converge()
        self.assertEqual([], self.rules())

    def test_keys_of_a_pool_that_proxies_take_over_are_kept(self):
        tree = self.tree()
        listener = {**tree['listeners'].popitem()[1], 'protocol': 'TCP'}
        members = tree['pools'].popitem()[1]['members']
        other = hypervisors.uuid(30)
        self.create(listeners={LISTENER: {**listener,
                                          'default_pool_id': POOL}},
                    pools={POOL: {
                        'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP_PORT',
                        'members': {M1: members['m1']}},
                        other: {
                        'protocol': 'PROXY', 'lb_algorithm': 'ROUND_ROBIN',
                        'members': {M2: members['m2']}}})
        self.converge()
        key = self.entries(self.hv1)[M1]['key']

        def move(document):
            document['listeners'][LISTENER]['default_pool_id'] = other
            document['proxies'] = {'nodes': {}, 'listeners': [],
                                   'moving': {LISTENER: POOL}}
            return document

        def settle(document):
            document['moved'] = {LISTENER: {
                'at': self.now, 'pool': document['pools'][POOL]}}
            document['proxies']['moving'] = {}
            return document
        for step in (move, settle):
            self.store.load_balancers.change(LB, step)
            self.converge()
            self.assertEqual(key, self.entries(self.hv1)[M1]['key'])
        self.assertIn('judged_as', self.entries(self.hv1)[M2])

    def test_missing_agent_is_the_members_error(self):
        self.ports[0] = hypervisors.port('m1', **{'binding:host_id': 'hv9'})
        self.create()
        self.converge()
        self.assertEqual({M2}, self.sent().keys())
        way = {way.member_id: way for way in self.store.ways.select(LB)}[M1]
        self.assertEqual('none', way.way)
        self.assertIn('hv9', way.reason)

    def test_members_stay_while_neutron_is_unavailable(self):
        self.create()
        self.converge()
        before = self.sent()
        self.neutron.error = errors.NeutronUnavailable('no route')
        self.worker = self.new_worker()
        self.converge()
        self.assertEqual(before, self.sent())


class TestNetworks(base.TestCase):

    def key(self, number, token):
        return ways.Key('hv', number, 'port', 'lb', 'pool', f'm{number}',
                        {'vip': token, 'judged_as': VIP})

    def test_networks_are_used_up_without_their_first_and_last_address(self):
        networks = tokens.Tokens([ipaddress.ip_network('100.64.0.0/30'),
                                  ipaddress.ip_network('100.64.1.0/30'),
                                  ipaddress.ip_network('fd00::/126')])
        used, numbers = keys.Keys(), iter([0, 0, 3, 1, 2] * 9)
        for number in range(4):
            used.put(self.key(number + 1, networks.new(
                used, '10.0.0.5', lambda size: next(numbers) % size)))
        self.assertEqual({'100.64.0.1', '100.64.0.2', '100.64.1.1',
                          '100.64.1.2'}, set(used.tokens()))
        self.assertIsNone(networks.new(used, '10.0.0.5', lambda size: 0))
        self.assertEqual('fd00::1', networks.new(used, '2001:db8::5',
                                                 lambda size: 0))

    def test_missing_option_is_named(self):
        v4 = [ipaddress.ip_network('100.64.0.0/10')]
        for networks, sources, name in (
                ([], [], 'token_networks'), (v4, v4, 'no IPv6'),
                (v4, [], 'proxy_networks')):
            address = '2001:db8::5' if 'IPv6' in name else '10.0.0.5'
            self.assertIn(name, tokens.Tokens(networks, sources).problem(
                address))
