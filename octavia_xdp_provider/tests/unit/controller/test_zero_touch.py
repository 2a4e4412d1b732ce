# SPDX-License-Identifier: Apache-2.0
"""Members on hypervisors: notices, moved flows, obstacles, keys."""

from unittest import mock

import fixtures

from octavia_xdp_provider.contracts import errors as refusals
from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import host_api
from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.controller.neutron_ports import notifications
from octavia_xdp_provider.controller.zero_touch import service
from octavia_xdp_provider.tests.unit.controller import hypervisors
from octavia_xdp_provider.tests.unit.controller import ports


class TestNotifications(hypervisors.ZeroTouchTestCase):
    """Members that a notification concerns are looked up at once."""

    def test_port_bound_elsewhere_is_noticed_at_once(self):
        self.create()
        self.converge()
        self.ports[0]['binding:host_id'] = 'hv2'
        self.ports[1]['binding:host_id'] = 'hv2'
        self.worker.step()
        self.hv2.pass_()
        self.assertEqual({}, self.hv2.held)
        self.hints.handle(notifications.Hint(frozenset([hypervisors.PORTS['m1']])))
        self.worker.step()
        self.hv2.pass_()
        self.assertEqual({hypervisors.PORTS['m1']}, set(self.hv2.held))
        self.step()
        self.hv2.pass_()
        self.assertEqual(set(hypervisors.PORTS.values()), set(self.hv2.held))

    def test_address_that_joins_a_remote_group_is_noticed(self):
        self.neutron._rules[:] = [ports.rule(
            remote_group_id=hypervisors.GROUP)]
        self.create()
        self.converge()
        self.ports.append(hypervisors.port('m1', id='client', fixed_ips=[
            {'subnet_id': 'sub-red', 'ip_address': '10.0.0.99'}]))
        self.worker.step()
        self.hv1.pass_()
        networks = self.hv1.held[hypervisors.GROUP]['document']['networks']
        self.assertNotIn('10.0.0.99/32', networks)
        self.hints.handle(notifications.Hint(
            frozenset(['client']), frozenset(['10.0.0.99']),
            frozenset([hypervisors.GROUP])))
        self.worker.step()
        self.hv1.pass_()
        self.assertEqual([*networks, '10.0.0.99/32'],
                         self.hv1.held[hypervisors.GROUP]['document']['networks'])

    def test_hint_is_kept_while_neutron_is_unavailable(self):
        self.create()
        self.converge()
        self.ports[0]['binding:host_id'] = 'hv2'
        self.hints.handle(notifications.Hint(frozenset([hypervisors.PORTS['m1']])))
        with mock.patch.object(self.neutron, 'ports',
                               side_effect=errors.NeutronUnavailable('no')):
            self.worker.step()
        self.worker.step()
        self.hv2.pass_()
        self.assertEqual({hypervisors.PORTS['m1']}, set(self.hv2.held))

    def test_former_leader_ignores_notifications(self):
        self.create()
        self.converge()
        self.assertTrue(self.hints.is_wanted)
        self.token = None
        self.worker.step()
        self.assertFalse(self.hints.is_wanted)


class TestMovedFlows(hypervisors.ZeroTouchTestCase):
    """Connections that a hypervisor reports are passed on to the port's new
    hypervisor."""

    def setUp(self):
        super().setUp()
        self.passed_on = []
        self.hv1.endpoint = host_api.HostsEndpoint(
            self.conf, self.store, lambda: None,
            lambda *message: self.passed_on.append(message))
        self.create()
        self.converge()

    def flows(self, *keys, member='m1', host=None):
        host = host or self.hv1
        return self.hv1.endpoint.flows(
            {}, host=host.name, port=hypervisors.PORTS[member], flows=[
                {'key': key, 'client': '198.51.100.7', 'port': 1025,
                 'closing': False} for key in keys])

    def own_key(self, host, member='m1'):
        entry, = host.held[hypervisors.PORTS[member]]['document']['entries']
        return entry['key']

    def migrate(self):
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()

    def test_flows_are_passed_on_with_the_new_hypervisors_key(self):
        key = self.own_key(self.hv1)
        self.assertFalse(self.flows(key))
        self.migrate()
        self.assertFalse(self.flows(key))
        self.hv2.pass_()
        self.assertTrue(self.flows(key))
        (host, port_id, flows), = self.passed_on
        self.assertEqual(('hv2', hypervisors.PORTS['m1']), (host, port_id))
        self.assertEqual([{'key': self.own_key(self.hv2), 'port': 1025,
                           'client': '198.51.100.7', 'closing': False}],
                         flows)

    def test_flows_with_foreign_keys_are_left_out(self):
        self.migrate()
        self.hv2.pass_()
        other = self.own_key(self.hv1, 'm2')
        self.assertTrue(self.flows(other, self.own_key(self.hv2), 77))
        self.assertEqual([], self.passed_on)

    def test_flows_of_hypervisor_without_the_port_are_dropped(self):
        self.migrate()
        self.hv2.pass_()
        key = self.own_key(self.hv1)
        self.store.register_hypervisor('hv3')
        self.assertFalse(self.hv1.endpoint.flows(
            {}, host='hv3', port=hypervisors.PORTS['m1'], flows=[
                {'key': key, 'client': '198.51.100.7', 'port': 1025,
                 'closing': False}]))
        self.assertEqual([], self.passed_on)

    def test_malformed_flows_are_refused(self):
        for flows in (
                [{'key': 1, 'client': 'x', 'port': 1, 'closing': False}],
                [{'key': 1, 'client': '::1', 'port': 0, 'closing': False}],
                [{'key': 1}], 'x',
                [{'key': 1, 'client': '192.0.2.1', 'port': 1,
                  'closing': False}] * 1001):
            self.assertRaises(refusals.Refused, self.hv1.endpoint.flows, {},
                              host='hv1', port=hypervisors.PORTS['m1'],
                              flows=flows)


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
        self.store.set_hypervisor_in_service('hv1', False)
        self.converge()
        self.assertEqual(('none', 'hypervisor hv1 is disabled'),
                         self.reason())
        self.assertEqual({}, self.sent())
        self.hv1.pass_()
        self.assertEqual(set(), self.hv1.keys())
        self.store.set_hypervisor_in_service('hv1', True)
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
            self.store.change('lb', lambda document: document) if (
                self.row()) else self.create()
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
        self.store.change('lb', self.on_80)
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


class TestKeys(hypervisors.ZeroTouchTestCase):

    def test_key_is_not_reused_during_its_quarantine(self):
        """Members come and go in a key space of seven."""
        given, free = {}, {}
        self.create()
        with mock.patch('random.SystemRandom') as source:
            numbers = iter(range(10 ** 6))
            source.return_value.randrange = lambda top: next(numbers) % 8
            self.worker = self.new_worker()
            for turn in range(12):
                self.now += hypervisors.QUARANTINE_S / 3

                def swap(document, turn=turn):
                    members = document['pools']['pool']['members']
                    member = next(iter(members.values()))
                    member = {name: member[name] for name in member
                              if name not in ('tunnel', 'way')}
                    document['pools']['pool']['members'] = {
                        f'new{turn}': member}
                    return document
                self.store.change('lb', swap)
                self.converge()
                now = {}
                for key in self.store.host_keys():
                    self.assertTrue(0 < key.key < 8)
                    if key.free_at is None:
                        now[key.key] = key.member_id
                for key, member in now.items():
                    if given.get(key) not in (None, member):
                        self.assertGreaterEqual(
                            self.now, free[key] + hypervisors.QUARANTINE_S)
                for key in given.keys() - now.keys():
                    free.setdefault(key, self.now)
                for key in now:
                    free.pop(key, None)
                given.update(now)
        self.assertGreater(len(given), 3)

    def test_srv6_has_sids_of_96_bits_and_keys_of_32(self):
        self.hv1.state.update(srv6='fd00:9::/96')
        self.hv1.report()
        self.create()
        self.converge()
        tunnel = self.members()['m1']['tunnel']
        self.assertEqual(('fd00:9::', 'srv6'),
                         (tunnel['address'], tunnel['encapsulation']))
        self.hv1.state.update(srv6=None)
        self.hv1.report()
        self.converge()
        tunnel = self.members()['m1']['tunnel']
        self.assertEqual('geneve', tunnel['encapsulation'])
        self.assertLess(tunnel['keys']['listener'], 1 << 24)


class TestBoundary(hypervisors.ZeroTouchTestCase):

    def test_hypervisor_gets_only_its_own_documents(self):
        self.create()
        self.converge()
        other = self.hv2.endpoint
        self.assertEqual([], other.fetch({}, host='hv2', since=0)['changed'])
        self.assertEqual({}, other.compare({}, host='hv2')['generations'])
        self.assertEqual([], other.documents(
            {}, host='hv2', ids=list(hypervisors.PORTS.values())))

    def test_hypervisor_reports_only_its_own_documents(self):
        self.create()
        self.converge()
        before = self.store.host_objects(['hv1'])
        self.hv2.held = dict(self.hv1.held)
        self.hv2.errors = {hypervisors.PORTS['m1']: 'broken'}
        self.hv2.report()
        self.assertEqual(before, self.store.host_objects(['hv1']))

    def test_unregistered_hypervisor_is_refused(self):
        self.store.remove_hypervisor('hv2')
        error = self.assertRaises(service.errors.Refused,
                                  self.hv2.endpoint.fetch, {}, host='hv2',
                                  since=0)
        self.assertIn('not registered', error.why)
        self.assertRaises(service.errors.Refused, self.hv2.report)

    def test_missing_node_networks_are_reported_without_loss(self):
        self.conf.set_override('node_networks', [], group='zero_touch')
        endpoint = host_api.HostsEndpoint(self.conf, self.store, None)
        answer = endpoint.fetch({}, host='hv1', since=5)
        self.assertIn('node_networks', answer['refused'])
        self.assertEqual((5, [], []), (
            answer['as_of'], answer['changed'], answer['removed']))
