# SPDX-License-Identifier: Apache-2.0
"""Members on hypervisors: notices, moved flows, keys."""

from unittest import mock

from octavia_xdp_provider.contracts import errors as refusals
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
        self.hints.handle(notifications.Hint(
            frozenset([hypervisors.PORTS['m1']])))
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
        self.assertEqual([*networks, '10.0.0.99/32'], self.hv1.held[
            hypervisors.GROUP]['document']['networks'])

    def test_hint_is_kept_while_neutron_is_unavailable(self):
        self.create()
        self.converge()
        self.ports[0]['binding:host_id'] = 'hv2'
        self.hints.handle(notifications.Hint(
            frozenset([hypervisors.PORTS['m1']])))
        with mock.patch.object(self.neutron, 'ports',
                               side_effect=errors.NeutronUnavailable('no')):
            self.worker.step()
        self.assertEqual(1, self.waiting[0])
        self.worker.step()
        self.assertEqual((0, 0.0), self.waiting)
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
        self.store.hypervisors.register('hv3')
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
                self.store.load_balancers.change('lb', swap)
                self.converge()
                now = {}
                for key in self.store.ways.host_keys():
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
        before = self.store.hypervisors.objects(['hv1'])
        self.hv2.held = dict(self.hv1.held)
        self.hv2.errors = {hypervisors.PORTS['m1']: 'broken'}
        self.hv2.report()
        self.assertEqual(before, self.store.hypervisors.objects(['hv1']))

    def test_unregistered_hypervisor_is_refused(self):
        self.store.hypervisors.remove('hv2')
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
