# SPDX-License-Identifier: Apache-2.0
"""How members on hypervisors are reached, and why some are not."""

from unittest import mock

import fixtures

from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.tests.unit.controller import hypervisors
from octavia_xdp_provider.tests.unit.controller import ports


class TestObstacles(hypervisors.ZeroTouchTestCase):

    def reason(self, member='m1'):
        way = self.ways()[member]
        return way.way, way.reason

    def test_missing_agent_is_named(self):
        self.ports[0]['binding:host_id'] = 'hv9'
        self.create()
        self.converge()
        way, reason = self.reason()
        self.assertEqual('none', way)
        self.assertIn('no agent is registered for hypervisor hv9', reason)
        self.assertEqual({'m2'}, set(self.sent()))
        self.assertEqual(set(), spec.undecided(self.row().document))

    def test_hypervisors_error_is_the_members_reason(self):
        self.hv1.errors = {hypervisors.PORTS['m1']: 'no room'}
        self.create()
        self.converge()
        self.assertEqual(('none', 'hypervisor hv1: no room'), self.reason())
        self.hv1.errors = {}
        self.hv1.report()
        self.converge()
        self.assertEqual('tunnel', self.reason()[0])

    def test_disabled_hypervisor_is_left(self):
        self.create()
        self.converge()
        self.store.hypervisors.set_in_service('hv1', False)
        self.converge()
        self.assertEqual(('none', 'hypervisor hv1 is disabled'),
                         self.reason())
        self.assertEqual({}, self.sent())
        self.hv1.pass_()
        self.assertEqual(set(), self.hv1.keys())
        self.store.hypervisors.set_in_service('hv1', True)
        self.converge()
        self.assertEqual('tunnel', self.reason()[0])

    def test_silent_agent_keeps_its_tunnels_and_gets_no_new_ones(self):
        self.create()
        self.converge()
        self.now += 3600
        self.create('lb2', vip_address='203.0.113.11', listeners={}, pools={
            'pool2': {**self.tree()['pools']['pool'], 'members': {
                'm3': {'address': hypervisors.ADDRESSES['m1'],
                       'protocol_port': 8081, 'subnet_id': 'sub-red'}},
                'healthmonitor': None}})
        self.step()
        self.assertEqual('tunnel', self.reason()[0])
        self.assertIn('does not report', self.ways('lb2')['m3'].reason)

    def test_foreign_addresses_are_not_used(self):
        for geneve, word in (('192.0.2.1', 'outside'),
                             ('198.18.20.2', 'same address')):
            self.hv1.state['geneve'] = [geneve]
            self.hv1.report()
            if self.row():
                self.store.load_balancers.change('lb', dict)
            else:
                self.create()
            self.step()
            self.assertIn(word, self.reason()[1])
        self.assertEqual({}, self.sent())

    def test_first_address_in_host_networks_is_used(self):
        self.create()
        for srv6, geneve, mtu, expected in (
                (None, ['192.0.2.1', 'fd00:9::31'], 1500,
                 ('geneve', 'fd00:9::31', 1442)),
                (None, ['198.18.20.1', 'fd00:9::31'], 1500,
                 ('geneve', '198.18.20.1', 1442)),
                ('2001:db8::/96', ['fd00:9::31'], 1400,
                 ('geneve', 'fd00:9::31', 1344)),
                ('fd00:9:1::/96', ['198.18.20.1'], 1400,
                 ('geneve', '198.18.20.1', 1364)),
                ('fd00:9::1:0:0/96', ['198.18.20.1'], 1400,
                 ('srv6', 'fd00:9::1:0:0', 1360))):
            self.hv1.state.update(srv6=srv6, geneve=geneve, mtu=mtu)
            self.hv1.report()
            self.converge()
            tunnel = self.members()['m1']['tunnel']
            self.assertEqual(expected, (
                tunnel['encapsulation'], tunnel['address'], tunnel['mtu']))

    def test_first_of_several_addresses_outside_is_named(self):
        self.hv1.state.update(srv6='2001:db8::/96', geneve=['192.0.2.1'])
        self.hv1.report()
        self.create()
        self.step()
        self.assertIn('2001:db8::, which is outside', self.reason()[1])

    def test_claim_of_anothers_address_has_no_effect(self):
        self.create()
        self.converge()
        before, keys = self.members(), self.hv1.keys()
        self.hv2.state['geneve'] = ['198.18.20.1']
        self.hv2.report()
        self.converge()
        self.assertEqual(before, self.members())
        self.assertEqual(keys, self.hv1.keys())
        self.assertIn('same address', self.reason()[1])
        self.hv2.state['geneve'] = ['198.18.20.2']
        self.hv2.report()
        self.converge()
        self.assertEqual(('tunnel', ''), self.reason())

    def test_members_stay_while_neutron_is_unavailable(self):
        self.create()
        with mock.patch.object(
                self.neutron, 'ports',
                side_effect=errors.NeutronUnavailable('no route')):
            self.step()
            self.assertEqual('waiting', self.reason()[0])
        self.converge()
        self.assertEqual('tunnel', self.reason()[0])
        with mock.patch.object(
                self.neutron, 'ports',
                side_effect=errors.NeutronUnavailable('no route')):
            self.converge()
        self.assertEqual({'m1', 'm2'}, set(self.sent()))

    def test_unbound_port_keeps_its_tunnel(self):
        self.create()
        self.converge()
        tunnel = self.members()['m1']['tunnel']
        self.ports[0].update({'binding:host_id': '',
                              'binding:vif_type': 'unbound'})
        self.converge()
        self.assertEqual(tunnel, self.members()['m1']['tunnel'])
        self.assertIn('no hypervisor', self.reason()[1])
        self.assertEqual(2, len(self.hv1.keys()))

    def test_disabled_port_or_router_has_no_entry(self):
        self.create()
        self.converge()
        self.ports[0]['admin_state_up'] = False
        self.converge()
        self.assertNotIn('tunnel', self.members()['m1'])
        self.assertEqual({'m2'}, set(self.sent()))
        self.assertEqual(('none', 'the port is disabled (admin_state_up)'),
                         self.reason())
        self.assertEqual({hypervisors.PORTS['m2']}, set(self.hv1.held))
        # Without the router's interface, the whole subnet is unreachable.
        del self.ports[2]
        self.converge()
        self.assertEqual({}, self.sent())
        self.assertEqual({}, self.hv1.held)

    def test_remote_groups_are_address_sets(self):
        self.neutron._rules[:] = [ports.rule(
            remote_group_id=hypervisors.GROUP)]
        self.create()
        self.converge()
        self.assertEqual(
            [f'{address}/32' for address in hypervisors.ADDRESSES.values()],
            self.hv1.held[hypervisors.GROUP]['document']['networks'])
        self.neutron._rules[:] = [ports.rule()]
        self.converge()
        self.assertNotIn(hypervisors.GROUP, self.hv1.held)

    def test_too_large_group_is_logged_once(self):
        self.neutron._rules[:] = [ports.rule(
            remote_group_id=hypervisors.GROUP)]
        # Every second address, so that they cannot be merged into networks.
        self.ports[1]['allowed_address_pairs'] = [
            {'ip_address': f'10.9.{number >> 7}.{2 * (number & 127)}'}
            for number in range(host_spec.ADDRESSES_MAX)]
        self.create()
        log = self.useFixture(fixtures.FakeLogger())

        def lines():
            return [line for line in log.output.splitlines()
                    if f'Group {hypervisors.GROUP}' in line]
        self.converge()
        self.converge()
        line, = lines()
        self.assertIn('4098', line)
        self.assertIn('4096', line)
        self.assertEqual(host_spec.ADDRESSES_MAX, len(
            self.hv1.held[hypervisors.GROUP]['document']['networks']))
        self.ports[1]['allowed_address_pairs'].pop()
        self.converge()
        self.assertEqual(2, len(lines()))
        self.assertIn('4097', lines()[1])


class TestPreferred(hypervisors.ZeroTouchTestCase):

    MODE = 'preferred'

    def test_member_outside_neutron_is_reached_at_its_address(self):
        self.ports.pop(0)
        self.create()
        self.store.load_balancers.change('lb', self.on_80)
        self.converge()
        sent = self.sent()
        self.assertNotIn('tunnel', sent['m1'])
        self.assertNotIn('way', sent['m1'])
        self.assertIn('tunnel', sent['m2'])
        self.assertEqual('direct', self.ways()['m1'].way)
        self.assertIn('no port', self.ways()['m1'].reason)

    @staticmethod
    def on_80(document):
        document['pools']['pool']['members']['m1']['protocol_port'] = 80
        return document

    def test_member_outside_neutron_needs_the_listeners_port(self):
        self.ports.pop(0)
        self.create()
        self.converge()
        self.assertEqual({'m2'}, set(self.sent()))
        self.assertEqual('none', self.ways()['m1'].way)
        self.assertIn('8080', self.ways()['m1'].reason)
