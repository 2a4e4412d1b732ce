# SPDX-License-Identifier: Apache-2.0
"""The driver's requests to the controller for each of Octavia's calls."""

import contextlib
import dataclasses
import threading
from unittest import mock

from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions
import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import zone
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import provider
from octavia_xdp_provider.driver import vip_port
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.driver import policies


class TestProvider(base.TestCase):

    def setUp(self):
        super().setUp()
        self.controller = mock.Mock(policy=policies.POLICY)
        self.enterContext(mock.patch.object(
            controller_client.ControllerClient, 'get',
            return_value=self.controller))
        self.driver = provider.XdpProviderDriver()

    def requested(self):
        return self.controller.change.call_args.args[0]

    def vip_port(self, additional=None, **vip):
        self.driver.create_vip_port(
            'lb', 'p', dict({'vip_subnet_id': 's'}, **vip), additional)

    def test_no_port_is_created_for_refused_vips(self):
        for option, vip in (
                ('vip_address', {'vip_address': '192.0.2.1'}),
                ('vip_address', {'vip_address': '2001:db8:101::9'}),
                ('vip_qos_policy_id', {'vip_qos_policy_id': 'q'}),
                ('vip_sg_ids', {'vip_sg_ids': ['s']}),
                ('additional_vips', {'additional': [
                    {'ip_address': '192.0.2.1'}]})):
            error = self.assertRaises(exceptions.UnsupportedOptionError,
                                      self.vip_port, **vip)
            self.assertIn(option, error.user_fault_string)

    def test_refused_changes_are_not_sent(self):
        self.assertRaises(
            exceptions.UnsupportedOptionError, self.driver.member_create,
            data_models.Member(member_id='m', address='127.0.0.1'))
        self.assertRaises(
            exceptions.UnsupportedOptionError,
            self.driver.member_batch_update, 'pool', [
                data_models.Member(member_id='a', address='198.18.10.11'),
                data_models.Member(member_id='b', address='127.0.0.1')])
        self.assertRaises(
            exceptions.UnsupportedOptionError, self.driver.l7rule_create,
            data_models.L7Rule(l7rule_id='r', l7policy_id='po', value='a\n'))
        self.controller.change.assert_not_called()

    def test_values_that_nodes_refuse_are_refused_by_name(self):
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

    def test_listener_is_sent_with_its_pool(self):
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

    def test_batch_update_replaces_all_members(self):
        self.driver.member_batch_update('pool', [
            data_models.Member(member_id='a', address='198.18.10.11',
                               weight=0),
            data_models.Member(member_id='b', address='2001:DB8::1',
                               backup=True)])
        self.assertEqual(
            {'object': 'member', 'action': 'replace', 'object_id': None,
             'pool_id': 'pool', 'members': {
                 'a': {'address': '198.18.10.11', 'weight': 0},
                 'b': {'address': '2001:db8::1', 'backup': True}}},
            self.requested())

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

    def test_flavors_are_validated_with_the_operators_defaults(self):
        self.controller.policy = dataclasses.replace(
            policies.POLICY, defaults={'new_flow_burst': 5,
                                           'new_flow_rate': 5})
        self.driver.validate_flavor({'new_flow_rate': 0})
        self.driver.validate_flavor({})

    def test_load_balancer_keeps_defaults_of_its_creation(self):
        self.controller.policy = dataclasses.replace(
            policies.POLICY, defaults={'member_port': 'rewrite'})
        self.driver.loadbalancer_create(self.balancer(
            flavor={'replicas': 3}))
        self.assertEqual({'member_port': 'rewrite', 'replicas': 3},
                         self.requested()['fields']['flavor'])
        self.assertIn('Default: rewrite.', (
            self.driver.get_supported_flavor_metadata()['member_port']))

    def balancer(self, **more):
        return data_models.LoadBalancer(**dict({
            'loadbalancer_id': 'lb', 'vip_address': '203.0.113.9',
            'vip_port_id': 'port'}, **more))

    def test_zones_are_described_and_validated(self):
        self.assertEqual(set(zone.KEYS), set(
            self.driver.get_supported_availability_zone_metadata()))
        self.driver.validate_availability_zone({'zone': 'east'})
        error = self.assertRaises(
            exceptions.UnsupportedOptionError,
            self.driver.validate_availability_zone, {'compute_zone': 'x'})
        self.assertIn("'compute_zone'", error.user_fault_string)

    def test_zone_is_sent_with_the_creation(self):
        self.driver.loadbalancer_create(self.balancer(
            availability_zone={'zone': 'east'}))
        self.assertEqual({'zone': 'east'},
                         self.requested()['fields']['availability_zone'])

    def test_additional_vips_are_sent_in_one_spelling_and_order(self):
        self.driver.loadbalancer_create(self.balancer(additional_vips=[
            {'ip_address': '2001:DB8:100:0::9', 'subnet_id': 's',
             'port_id': 'port'},
            {'ip_address': '2001:db8:100::8', 'subnet_id': 't'}]))
        self.assertEqual(
            ['2001:db8:100::8', '2001:db8:100::9'],
            [vip['ip_address'] for vip in (
                self.requested()['fields']['additional_vips'])])

    def test_failover_is_requested(self):
        self.driver.loadbalancer_failover('lb')
        self.assertEqual(
            {'object': 'loadbalancer', 'action': 'failover',
             'object_id': 'lb', 'load_balancer_id': 'lb'}, self.requested())
        self.assertRaises(exceptions.UnsupportedOptionError,
                          self.driver.loadbalancer_failover_with_flavor,
                          'lb', 'f')

    def test_policies_and_rules_name_their_parents(self):
        policy = data_models.L7Policy(
            l7policy_id='po', listener_id='l', action='REJECT', position=2,
            rules=[])
        rule = data_models.L7Rule(
            l7rule_id='r', l7policy_id='po', type='PATH', value='/a',
            compare_type='EQUAL_TO')
        for call, given, expected in (
                (self.driver.l7policy_create, [policy],
                 {'object': 'l7policy', 'action': 'create', 'object_id': 'po',
                  'listener_id': 'l', 'fields': {
                      'action': 'REJECT', 'position': 2, 'rules': {}}}),
                (self.driver.l7policy_update, [policy, data_models.L7Policy(
                    l7policy_id='po', position=1)],
                 {'object': 'l7policy', 'action': 'update', 'object_id': 'po',
                  'listener_id': 'l', 'fields': {'position': 1}}),
                (self.driver.l7policy_delete, [policy],
                 {'object': 'l7policy', 'action': 'delete', 'object_id': 'po',
                  'listener_id': 'l'}),
                (self.driver.l7rule_create, [rule],
                 {'object': 'l7rule', 'action': 'create', 'object_id': 'r',
                  'l7policy_id': 'po', 'fields': {
                      'type': 'PATH', 'value': '/a',
                      'compare_type': 'EQUAL_TO'}}),
                (self.driver.l7rule_update, [rule, data_models.L7Rule(
                    l7rule_id='r', invert=True)],
                 {'object': 'l7rule', 'action': 'update', 'object_id': 'r',
                  'l7policy_id': 'po', 'fields': {'invert': True}}),
                (self.driver.l7rule_delete, [rule],
                 {'object': 'l7rule', 'action': 'delete', 'object_id': 'r',
                  'l7policy_id': 'po'})):
            call(*given)
            self.assertEqual(expected, self.requested())

    def test_change_of_a_listener_is_checked_by_its_protocol(self):
        old = data_models.Listener(listener_id='l', loadbalancer_id='lb',
                                   protocol='TCP')
        error = self.assertRaises(
            exceptions.UnsupportedOptionError, self.driver.listener_update,
            old, data_models.Listener(listener_id='l', hsts_max_age=5))
        self.assertIn("'hsts_max_age'", error.user_fault_string)
        old.protocol = 'TERMINATED_HTTPS'
        self.driver.listener_update(old, data_models.Listener(
            listener_id='l', hsts_max_age=5))
        self.assertEqual({'hsts_max_age': 5}, self.requested()['fields'])

    def test_certificates_need_the_key_of_the_controllers(self):
        listener = data_models.Listener(
            listener_id='l', loadbalancer_id='lb', protocol_port=443,
            protocol='TERMINATED_HTTPS', default_tls_container_ref='x')
        pool = data_models.Pool(
            pool_id='p', loadbalancer_id='lb', protocol='HTTP',
            lb_algorithm='ROUND_ROBIN', ca_tls_container_ref='x')
        for name, call, given in (
                ('default_tls_container_ref', self.driver.listener_create,
                 (listener,)),
                ('default_tls_container_ref', self.driver.loadbalancer_create,
                 (self.balancer(listeners=[listener]),)),
                ('ca_tls_container_ref', self.driver.pool_update,
                 (data_models.Pool(pool_id='p', loadbalancer_id='lb'),
                  data_models.Pool(pool_id='p', ca_tls_container_ref='x'))),
                ('ca_tls_container_ref', self.driver.loadbalancer_create,
                 (self.balancer(pools=[pool]),))):
            error = self.assertRaises(exceptions.UnsupportedOptionError,
                                      call, *given)
            self.assertIn(repr(name), error.user_fault_string)
        self.controller.change.assert_not_called()

    def test_creation_may_lack_policies_if_its_transaction_is_unknown(self):
        for protocol, expected in (('HTTP', True), ('TCP', None)):
            self.driver.loadbalancer_create(self.balancer(listeners=[
                data_models.Listener(listener_id='l', protocol=protocol,
                                     protocol_port=80)]))
            self.assertEqual(expected, self.requested().get('incomplete'))

    def test_vips_of_other_subnets_are_refused_before_port_creation(self):
        self.controller.policy = dataclasses.replace(
            policies.POLICY, addresses=dataclasses.replace(
                policies.POLICY.addresses,
                vip_subnet_ids=frozenset({'s'}),
                vip_network_ids=frozenset({'n'})))
        for vip in ({}, {'vip_subnet_id': 't', 'vip_network_id': 'n'}):
            self.assertRaises(exceptions.NotImplementedError,
                              self.vip_port, **vip)
        for vip in ({'vip_subnet_id': 't'},
                    {'additional': [{'subnet_id': 't'}]},
                    {'vip_subnet_id': 't', 'vip_network_id': 'm',
                     'vip_address': '203.0.113.9'}):
            error = self.assertRaises(exceptions.UnsupportedOptionError,
                                      self.vip_port, **vip)
            self.assertIn('none of those', error.user_fault_string)
        self.assertRaises(
            exceptions.UnsupportedOptionError,
            self.driver.loadbalancer_create, self.balancer(
                vip_subnet_id='t', vip_network_id='m'))
        self.controller.change.assert_not_called()

    def test_no_port_is_created_while_controller_is_down(self):
        self.controller.check_answers.side_effect = exceptions.DriverError()
        self.assertRaises(exceptions.DriverError, self.vip_port)


class TestPorts(base.TestCase):
    """The Neutron port that Octavia created is deleted after a refusal."""

    def setUp(self):
        super().setUp()
        self.controller = mock.Mock(policy=policies.POLICY)
        self.network = mock.Mock()
        self.network.get_port.return_value = mock.Mock(
            device_owner='Octavia', device_id='lb-lb')
        self.drivers = mock.Mock(return_value=mock.Mock(driver=self.network))
        for target, name, value in (
                (controller_client.ControllerClient, 'get',
                 lambda: self.controller),
                (vip_port.driver, 'DriverManager', self.drivers)):
            self.enterContext(mock.patch.object(target, name, value))
        self.enterContext(mock.patch.object(vip_port, 'cfg'))
        self.driver = provider.XdpProviderDriver()

    def create_port(self, port_id=None):
        self.assertRaises(
            exceptions.NotImplementedError, self.driver.create_vip_port,
            'lb', 'p', {'vip_subnet_id': 's', 'vip_port_id': port_id}, [])

    def create(self, expected=None, port_id=None, **more):
        """Make the calls that octavia-api makes for one request."""
        self.create_port(port_id)
        balancer = data_models.LoadBalancer(
            loadbalancer_id='lb', vip_address='203.0.113.9',
            vip_port_id='port', **more)
        if expected is None:
            self.driver.loadbalancer_create(balancer)
        else:
            self.assertRaises(expected, self.driver.loadbalancer_create,
                              balancer)

    def test_port_stays_with_its_load_balancer(self):
        self.create()
        self.network.delete_port.assert_not_called()

    def test_any_refusal_frees_the_port(self):
        bad = data_models.Pool(pool_id='p', protocol='TCP', lb_algorithm='X')
        for number, (error, more) in enumerate((
                (exceptions.UnsupportedOptionError, {'pools': [bad]}),
                (exceptions.Conflict, {}), (exceptions.DriverError, {}))):
            if not more:
                self.controller.change.side_effect = error()
            self.create(error, **more)
            self.assertEqual([mock.call('port')] * (number + 1),
                             self.network.delete_port.call_args_list)

    def test_users_own_port_stays(self):
        self.controller.change.side_effect = exceptions.Conflict()
        self.create(exceptions.Conflict, port_id='port')
        self.network.delete_port.assert_not_called()

    def test_foreign_port_stays(self):
        self.controller.change.side_effect = exceptions.Conflict()
        for owner, device in (('compute:nova', 'lb-lb'),
                              ('Octavia', 'lb-other')):
            self.network.get_port.return_value = mock.Mock(
                device_owner=owner, device_id=device)
            self.create(exceptions.Conflict)
        self.network.delete_port.assert_not_called()

    def roll_back(self, end=orm.Session.rollback, port_id=None, create=False):
        """Roll back a transaction of Octavia.

        :param create: whether Octavia calls loadbalancer_create() first.
        :returns: ids of the ports that were deleted.
        """
        self.network.network_proxy.ports.return_value = [
            mock.Mock(id='port')]
        self.network.delete_port.reset_mock()
        before = set(threading.enumerate())
        engine = sa.create_engine('sqlite://')
        self.addCleanup(engine.dispose)
        with orm.Session(engine) as session:
            session.execute(sa.text('SELECT 1'))
            if create:
                self.create(port_id=port_id)
            else:
                self.create_port(port_id)
            with contextlib.suppress(ConnectionError):
                end(session)
        for thread in set(threading.enumerate()) - before:
            thread.join()
        return [call.args[0] for call
                in self.network.delete_port.call_args_list]

    def test_rollback_by_octavia_frees_the_port(self):
        for create in (False, True):
            self.assertEqual(['port'], self.roll_back(create=create))
            self.network.network_proxy.ports.assert_called_with(
                device_owner='Octavia', device_id='lb-lb')
        self.assertEqual([], self.roll_back(port_id='port'))
        self.assertEqual([], self.roll_back(orm.Session.commit, create=True))

    def test_commit_without_answer_leaves_the_port(self):
        def fail(session):
            with mock.patch.object(session.bind.dialect, 'do_commit',
                                   side_effect=ConnectionError):
                session.commit()
        self.assertEqual([], self.roll_back(fail, create=True))

    def test_freed_port_is_not_searched_again(self):
        self.controller.change.side_effect = exceptions.Conflict()

        def refused(session):
            self.create(exceptions.Conflict)
            session.rollback()
        self.assertEqual(['port'], self.roll_back(refused))
        self.network.network_proxy.ports.assert_not_called()

    def test_failed_deletion_of_port_keeps_the_error(self):
        self.controller.change.side_effect = exceptions.Conflict()
        self.network.delete_port.side_effect = RuntimeError('no Neutron')
        self.create(exceptions.Conflict)
