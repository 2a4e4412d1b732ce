# SPDX-License-Identifier: Apache-2.0
"""Members with tunnels: what the datapath gets, and how they are probed."""

import copy
import dataclasses
import ipaddress

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import planning

POLICY = address_policy.AddressPolicy(
    (ipaddress.ip_network('203.0.113.0/24'),), (), frozenset())
Encapsulation = datapath.Encapsulation
GENEVE = {'address': '198.18.20.1', 'encapsulation': 'geneve', 'key': 7}


class TestTunnels(base.TestCase):

    def setUp(self):
        super().setUp()
        self.document = base.document()
        self.pool = self.document['pools']['pool']
        self.pool['healthmonitor'] = None
        self.member = self.pool['members']['m1']

    def planned(self, tunnel, path_mtu=None, listener='listener'):
        """The service's member m1."""
        self.member['tunnel'] = tunnel
        plan = planning.plan(self.document, POLICY, path_mtu)
        key, = plan.listeners[listener]
        planned, = (member for member in plan.services[key].members
                    if member.address == '198.18.10.11')
        return planned

    def test_datapath_gets_the_tunnel_and_the_name(self):
        member = self.planned(GENEVE)
        self.assertEqual(datapath.Tunnel('198.18.20.1', Encapsulation.GENEVE,
                                         7, True), member.tunnel)
        # the port is the name's alone
        self.assertEqual(('198.18.10.11', 80), (member.address, member.port))

    def test_tunnel_end_that_takes_alternatives_is_marked(self):
        """The outer packet has room for one where packets name them."""
        tunnel = {**GENEVE, 'mtu': 1442, 'takes_alternative': True}
        member = self.planned(tunnel)
        self.assertTrue(member.tunnel.takes_alternative)
        self.assertEqual(1442 + 36, member.mtu)
        self.document['flavor'] = {'second_chance': True,
                                   'encapsulation': 'gue'}
        self.assertEqual(1442 + 36 + 12, self.planned(tunnel).mtu)

    def test_tunnel_without_a_key_keeps_the_usual_port(self):
        tunnel = {'address': 'fd00:9::1', 'encapsulation': 'gre'}
        self.assertEqual(0, self.planned(tunnel).port)
        self.document['flavor'] = {'member_port': 'rewrite'}
        member = self.planned(tunnel)
        self.assertEqual(80, member.port)
        self.assertFalse(member.tunnel.keeps_port)

    def test_each_vip_has_its_key_and_its_probes(self):
        self.document['additional_vips'] = [{'ip_address': '2001:db8:100::10'}]
        self.pool['healthmonitor'] = base.document()['pools']['pool'][
            'healthmonitor']
        self.pool['members'].pop('m2')
        self.member['tunnel'] = {
            'address': '198.18.20.1', 'encapsulation': 'geneve', 'mtu': 1442,
            'keys': {'listener': 7}, 'additional_keys': {
                '2001:db8:100::10': {'listener': 9}}}
        asked = {}

        def mark(vip, name, settings, tunnel):
            asked[vip] = tunnel.key
            return tunnel.key
        policy = address_policy.AddressPolicy(
            (*POLICY.vip_networks, ipaddress.ip_network('2001:db8::/32')),
            (), frozenset())
        plan = planning.plan(self.document, policy, mark=mark)
        self.assertEqual({base.VIP: 7, '2001:db8:100::10': 9}, asked)
        self.assertEqual(asked, {
            key.address: service.members[0].tunnel.key
            for key, service in plan.services.items()})
        self.assertEqual({(base.VIP, 7), ('2001:db8:100::10', 9)}, {
            (check.address, check.mark) for check in plan.checks})

    def test_each_listener_has_its_key(self):
        self.document['listeners']['other'] = dict(
            self.document['listeners']['listener'], protocol_port=443)
        self.pool['members'].pop('m2')
        tunnel = dict(GENEVE, keys={'other': 9})
        for listener, key in (('listener', 7), ('other', 9)):
            self.assertEqual(
                key, self.planned(tunnel, listener=listener).tunnel.key)

    def test_mtu_is_the_minimum_of_path_and_tunnel_end(self):
        asked = []

        def path_mtu(address):
            asked.append(address)
            return 1480
        srv6 = {'address': 'fd00:9::', 'encapsulation': 'srv6', 'key': 7}
        for tunnel, inner, mtu in (
                (GENEVE, 1442, 1442 + 36), (GENEVE, 1450, 1480),
                (dict(GENEVE, address='fd00:9::1'), 1300, 1356),
                (srv6, 1430, 1470), (srv6, 1442, 1480)):
            self.assertEqual(mtu, self.planned(
                dict(tunnel, mtu=inner), path_mtu).mtu)
        self.assertIn('198.18.20.1', asked)
        self.assertIn('fd00:9::7', asked)
        self.assertNotIn('198.18.10.11', asked)
        self.assertEqual(1478, self.planned(dict(GENEVE, mtu=1442)).mtu)
        self.assertEqual(0, self.planned(GENEVE).mtu)

    def test_uplinks_are_needed_of_the_outer_family(self):
        self.pool['members'].pop('m2')
        self.member['tunnel'] = dict(GENEVE, address='fd00:9::1')
        plan = planning.plan(self.document, POLICY)
        service, = plan.services.values()
        self.assertEqual({6}, service.families(base.VIP))

    def monitored(self, mark=lambda *_way: 7, **monitor):
        self.document = base.document()
        self.pool = self.document['pools']['pool']
        self.pool['healthmonitor'].update(monitor)
        self.pool['members'].pop('m2')
        self.pool['members']['m1'].update(tunnel=GENEVE)
        return planning.plan(self.document, POLICY, mark=mark)

    def test_probes_go_through_the_tunnel_and_nowhere_else(self):
        seen = []

        def mark(*way):
            seen.append(way)
            return 7
        check, = self.monitored(mark).checks
        self.assertEqual((base.VIP, 7), (check.address, check.mark))
        (_vip, name, _settings, tunnel), = seen
        self.assertEqual('198.18.10.11:80', str(name))
        self.assertEqual('198.18.20.1', tunnel.address)

    def test_patience_is_with_the_checks_of_the_member_alone(self):
        self.document = base.document()
        self.pool = self.document['pools']['pool']
        members = self.pool['members']
        members['m1'].update(tunnel=dict(GENEVE, patience=30),
                             monitor_address='198.18.10.99')
        members['m2'].update(tunnel=dict(GENEVE, key=8))
        plan = planning.plan(
            self.document, POLICY,
            mark=lambda _vip, _name, _settings, tunnel: tunnel.key)
        keys = {(check.address, check.mark): check.key
                for check in plan.checks}
        self.assertEqual({keys['198.18.10.99', None]: 30,
                          keys[base.VIP, 7]: 30}, plan.patience)
        # Nothing else of the plan is another one: no service is set.
        del members['m1']['tunnel']['patience']
        still = planning.plan(
            self.document, POLICY,
            mark=lambda _vip, _name, _settings, tunnel: tunnel.key)
        self.assertEqual({}, still.patience)
        self.assertEqual(
            dataclasses.replace(plan, patience={}, moving=set()), still)

    def test_patience_applies_to_the_moving_members_monitor_only(self):
        self.document = base.document()
        pools = self.document['pools']
        pools['pool']['members'].pop('m2')
        pools['other'] = copy.deepcopy(pools['pool'])
        pools['other']['healthmonitor'].update(id='other', delay=9)
        self.document['listeners']['other'] = dict(
            self.document['listeners']['listener'], protocol_port=81,
            default_pool_id='other')
        for pool, patience in (('pool', {'patience': 30}), ('other', {})):
            pools[pool]['members']['m1']['tunnel'] = {**GENEVE, **patience}
        plan = planning.plan(
            self.document, POLICY, scope=forwarding.LOAD_BALANCER,
            mark=lambda *_way: 7)
        own, = {check.key for check in plan.checks if check.delay != 9}
        self.assertEqual(2, len({check.key for check in plan.checks}))
        self.assertEqual({own: 30}, plan.patience)

    def test_probes_to_a_name_are_refused(self):
        for mark, monitor, word in (
                (lambda *_way: None, {}, 'probe_through_datapath'),
                (lambda *_way: 7, {'type': 'UDP-CONNECT'},
                 'monitor_address')):
            if monitor:
                self.pool['healthmonitor'] = dict(
                    base.document()['pools']['pool']['healthmonitor'])
            error = self.assertRaises(
                errors.Refused, self.refused, mark, monitor)
            self.assertEqual('healthmonitor', error.option)
            self.assertIn(word, f'{error.why} {error.instead}')

    def refused(self, mark, monitor):
        document = base.document()
        pool = document['pools']['pool']
        pool['healthmonitor'].update(monitor)
        pool['members'].pop('m2')
        pool['members']['m1'].update(tunnel=GENEVE, protocol_port=8080)
        return planning.plan(document, POLICY, mark=mark)
