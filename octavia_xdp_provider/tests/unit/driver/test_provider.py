# SPDX-License-Identifier: Apache-2.0
"""What the driver requests of the controller for each of Octavia's calls."""

from unittest import mock

from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions

from octavia_xdp_provider.common import flavor
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import provider
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.driver import test_support


class TestProvider(base.TestCase):

    def setUp(self):
        super().setUp()
        self.controller = mock.Mock(address_policy=test_support.POLICY)
        patch = mock.patch.object(controller_client.ControllerClient, 'get',
                                  return_value=self.controller)
        patch.start()
        self.addCleanup(patch.stop)
        self.driver = provider.XdpProviderDriver()

    def requested(self):
        return self.controller.change.call_args.args[0]

    def vip_port(self, additional=None, **vip):
        self.driver.create_vip_port(
            'lb', 'p', dict({'vip_subnet_id': 's'}, **vip), additional)

    def test_octavia_makes_the_vip_port(self):
        for vip in ({}, {'vip_address': None},
                    {'vip_address': '2001:db8:100::9'},
                    {'vip_address': '203.0.113.9', 'vip_sg_ids': []}):
            self.assertRaises(exceptions.NotImplementedError,
                              self.vip_port, **vip)

    def test_no_port_is_made_for_what_is_refused(self):
        for option, vip in (
                ('vip_address', {'vip_address': '192.0.2.1'}),
                ('vip_address', {'vip_address': '2001:db8:101::9'}),
                ('vip_qos_policy_id', {'vip_qos_policy_id': 'q'}),
                ('vip_sg_ids', {'vip_sg_ids': ['s']}),
                ('additional_vips', {'additional': [{'subnet_id': 's'}]})):
            error = self.assertRaises(exceptions.UnsupportedOptionError,
                                      self.vip_port, **vip)
            self.assertIn(option, error.user_fault_string)

    def test_what_is_refused_is_not_sent(self):
        self.assertRaises(
            exceptions.UnsupportedOptionError, self.driver.member_create,
            data_models.Member(member_id='m', address='127.0.0.1'))
        self.assertRaises(
            exceptions.UnsupportedOptionError,
            self.driver.member_batch_update, 'pool', [
                data_models.Member(member_id='a', address='198.18.10.11'),
                data_models.Member(member_id='b', address='127.0.0.1')])
        for method in (self.driver.l7policy_create,
                       self.driver.l7rule_create):
            self.assertRaises(exceptions.UnsupportedOptionError, method,
                              mock.Mock())
        self.controller.change.assert_not_called()

    def test_what_only_a_node_would_refuse_is_refused_by_name(self):
        monitor = data_models.HealthMonitor(
            healthmonitor_id='h', pool_id='p', type='HTTP', delay=5,
            timeout=3, max_retries=2, url_path='/größe')
        pool = data_models.Pool(
            pool_id='p', loadbalancer_id='lb', protocol='TCP',
            lb_algorithm='SOURCE_IP', healthmonitor=monitor)
        for call, given in (
                (self.driver.health_monitor_create, (monitor,)),
                (self.driver.health_monitor_update, (monitor, monitor)),
                (self.driver.pool_create, (pool,)),
                (self.driver.loadbalancer_create, (data_models.LoadBalancer(
                    loadbalancer_id='lb', pools=[pool]),))):
            error = self.assertRaises(
                exceptions.UnsupportedOptionError, call, *given)
            self.assertIn("'url_path'", error.user_fault_string)
        self.controller.change.assert_not_called()

    def test_values_out_of_bounds_are_refused_by_name(self):
        member = data_models.Member(member_id='m', pool_id='p',
                                    address='198.18.10.11',
                                    protocol_port=80, weight=257)
        error = self.assertRaises(
            exceptions.UnsupportedOptionError, self.driver.member_create,
            member)
        self.assertIn("'weight'", error.user_fault_string)
        error = self.assertRaises(
            exceptions.UnsupportedOptionError,
            self.driver.member_batch_update, 'p', [member])
        self.assertIn("'members.m.weight'", error.user_fault_string)
        self.controller.change.assert_not_called()

    def test_update_sends_the_changed_fields_only(self):
        self.driver.member_update(
            data_models.Member(member_id='m', pool_id='pool', weight=1),
            data_models.Member(member_id='m', weight=2))
        self.assertEqual(
            {'object': 'member', 'action': 'update', 'object_id': 'm',
             'pool_id': 'pool', 'fields': {'weight': 2}}, self.requested())

    def test_batch_update_replaces_all_members(self):
        self.driver.member_batch_update('pool', [
            data_models.Member(member_id='a', address='198.18.10.11')])
        self.assertEqual(
            {'object': 'member', 'action': 'replace', 'object_id': None,
             'pool_id': 'pool',
             'members': {'a': {'address': '198.18.10.11'}}}, self.requested())

    def test_listener_brings_its_pool_along(self):
        self.driver.listener_create(data_models.Listener(
            listener_id='l', loadbalancer_id='lb', protocol='TCP',
            protocol_port=80, default_pool=data_models.Pool(
                pool_id='p', protocol='TCP',
                lb_algorithm='SOURCE_IP_PORT')))
        self.assertEqual('p', self.requested()['fields']['default_pool_id'])
        self.assertEqual({'p'}, set(self.requested()['pools']))

    def test_parents_come_from_the_old_object(self):
        self.driver.listener_update(
            data_models.Listener(listener_id='l', loadbalancer_id='lb'),
            data_models.Listener(listener_id='l', name='new'))
        self.assertEqual('lb', self.requested()['load_balancer_id'])
        self.driver.health_monitor_update(
            data_models.HealthMonitor(healthmonitor_id='h', pool_id='p'),
            data_models.HealthMonitor(healthmonitor_id='h', delay=3))
        self.assertEqual('p', self.requested()['pool_id'])

    def test_batch_of_mixed_members(self):
        self.driver.member_batch_update('pool', [
            data_models.Member(member_id='a', address='198.18.10.11',
                               weight=0),
            data_models.Member(member_id='b', address='2001:DB8::1',
                               backup=True)])
        self.assertEqual(
            {'a': {'address': '198.18.10.11', 'weight': 0},
             'b': {'address': '2001:db8::1', 'backup': True}},
            self.requested()['members'])

    def test_options_of_every_object_are_sent(self):
        self.driver.loadbalancer_create(data_models.LoadBalancer(
            loadbalancer_id='lb', vip_address='2001:db8:100::9',
            flavor={'encapsulation': 'srv6', 'srv6_function': 7},
            listeners=[data_models.Listener(
                listener_id='l', protocol='SCTP', protocol_port=80,
                allowed_cidrs=['2001:db8::/32'],
                default_pool=data_models.Pool(
                    pool_id='p', protocol='SCTP', lb_algorithm='SOURCE_IP',
                    session_persistence={'type': 'SOURCE_IP'},
                    members=[data_models.Member(
                        member_id='m', address='2001:db8::1', weight=0,
                        backup=True, protocol_port=80)]))]))
        fields = self.requested()['fields']
        self.assertEqual({'encapsulation': 'srv6', 'srv6_function': 7},
                         fields['flavor'])
        self.assertEqual(['2001:db8::/32'],
                         fields['listeners']['l']['allowed_cidrs'])
        pool = fields['pools']['p']
        self.assertEqual(('SCTP', 'SOURCE_IP', {'type': 'SOURCE_IP'}),
                         (pool['protocol'], pool['lb_algorithm'],
                          pool['session_persistence']))
        self.assertEqual((0, True), (pool['members']['m']['weight'],
                                     pool['members']['m']['backup']))

    def test_flavor_keys_are_described_and_validated(self):
        described = self.driver.get_supported_flavor_metadata()
        self.assertEqual(set(flavor.KEYS), set(described))
        self.assertIn('from 1 to 63', described['dscp'])
        for good in ({}, {'replicas': 3}, {'encapsulation': 'gue'}):
            self.driver.validate_flavor(good)
        for key, bad in (('x', {'x': 1}),
                         ('dscp', {'encapsulation': 'dscp'}),
                         ('quic', {'quic': 'yes'})):
            error = self.assertRaises(exceptions.UnsupportedOptionError,
                                      self.driver.validate_flavor, bad)
            self.assertIn(repr(key), error.user_fault_string)
