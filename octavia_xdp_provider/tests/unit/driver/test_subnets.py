# SPDX-License-Identifier: Apache-2.0

import dataclasses
import types
from unittest import mock
import uuid

from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import provider
from octavia_xdp_provider.driver import subnets
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.driver import policies

SUBNET = str(uuid.uuid4())
NETWORK = str(uuid.uuid4())


class SubnetNotFound(Exception):
    """Named like the exception of Octavia's network drivers."""


class TestSubnets(base.TestCase):

    def setUp(self):
        super().setUp()
        self.network = mock.Mock()
        self.network.get_subnet.return_value = types.SimpleNamespace(
            cidr='198.18.10.0/24', network_id=NETWORK,
            gateway_ip='198.18.10.1')
        self.network.get_network.return_value = types.SimpleNamespace(
            project_id='red')
        self.shared_with = []
        self.external_for = []
        self.network.network_proxy.rbac_policies = self.policies
        for name, value in (
                ('driver.DriverManager', mock.Mock(
                    return_value=types.SimpleNamespace(
                        driver=self.network))),
                ('cfg', mock.Mock())):
            self.enterContext(
                mock.patch(f'{subnets.__name__}.{name}', value))
        self.subnets = subnets.Subnets()

    def policies(self, object_type, object_id):
        self.assertEqual(('network', NETWORK), (object_type, object_id))
        return iter([
            types.SimpleNamespace(target_project_id=project, action=action)
            for action, projects in (
                ('access_as_shared', self.shared_with),
                ('access_as_external', self.external_for))
            for project in projects])

    def member(self, address='198.18.10.11', subnet=SUBNET, project='red'):
        return data_models.Member(address=address, subnet_id=subnet,
                                  project_id=project)

    def refused(self, *members, addresses=True):
        error = self.assertRaises(errors.Refused, self.subnets.check, members,
                                  addresses)
        self.assertEqual('subnet_id', error.option)
        return str(error)

    def test_other_projects_subnet_looks_missing(self):
        foreign = self.refused(self.member(project='blue'), addresses=False)
        self.assertIn(SUBNET, foreign)
        self.network.get_subnet.side_effect = SubnetNotFound('none')
        self.subnets = subnets.Subnets()
        self.assertEqual(foreign, self.refused(self.member(project='blue'),
                                               addresses=False))

    def test_shared_network_may_be_used(self):
        for self.shared_with in (['green', 'blue'], ['*']):
            self.subnets = subnets.Subnets()
            self.subnets.check([self.member(project='blue'), self.member()])
        self.shared_with, self.external_for = ['green'], ['blue']
        self.subnets = subnets.Subnets()
        self.refused(self.member(project='blue'), addresses=False)

    def test_network_shared_no_longer_is_refused(self):
        self.shared_with = ['blue']
        self.subnets.check([self.member(project='blue')])
        self.shared_with = []
        with mock.patch.object(subnets, '_HOLDS_S', 0):
            self.refused(self.member(project='blue'), addresses=False)

    def test_member_without_project_is_refused(self):
        self.refused(self.member(project=None), addresses=False)

    def test_address_in_its_subnet_is_accepted(self):
        self.subnets.check([self.member(), self.member('198.18.10.255')],
                           addresses=True)

    def test_address_outside_its_subnet_is_refused(self):
        for address in ('198.18.11.1', '2001:db8::1'):
            self.assertIn('198.18.10.0/24',
                          self.refused(self.member(address)))

    def test_missing_subnet_is_refused(self):
        self.network.get_subnet.side_effect = SubnetNotFound('none')
        self.assertIn('there is no subnet', self.refused(self.member()))

    def test_member_is_refused_without_an_answer(self):
        self.network.get_subnet.side_effect = OSError('connection refused')
        self.assertIn('try again', self.refused(self.member()))
        self.network.get_subnet.side_effect = None
        self.subnets.check([self.member()])

    def test_subnet_is_looked_up_once(self):
        self.subnets.check([self.member()] * 500)
        self.network.get_subnet.assert_called_once_with(SUBNET)

    def test_member_without_subnet_causes_no_look_up(self):
        self.subnets.check([self.member(subnet=None),
                            self.member(subnet=data_models.Unset)],
                           addresses=True)
        self.network.get_subnet.assert_not_called()

    def vip(self, address=None, subnet=SUBNET, are_named=False, **more):
        self.subnets = subnets.Subnets()
        self.subnets.check_vips(dict(
            more, vip_subnet_id=subnet, vip_address=address), are_named)

    def vip_refused(self, option, word, *given, **more):
        error = self.assertRaises(errors.Refused, self.vip, *given, **more)
        self.assertEqual(option, error.option)
        self.assertIn(word, str(error))

    def test_vips_are_on_networks_for_all_projects(self):
        for self.shared_with, self.external_for in (
                (['*'], []), ([], ['*']), (['green'], ['*', 'green'])):
            self.vip()
        # A network's owner can share it with one project, or make it external
        # for one, which may be that of the load balancer.
        for self.shared_with, self.external_for in (
                ([], []), (['red', 'blue'], []), ([], ['red'])):
            self.vip_refused('vip_subnet_id', 'a project\'s own')

    def test_additional_vips_are_checked(self):
        self.vip(subnet=None)
        for subnet in (None, SUBNET):
            self.vip_refused('vip_subnet_id' if subnet else 'additional_vips',
                             'a project\'s own', subnet=subnet,
                             additional_vips=[{'subnet_id': SUBNET}])

    def test_owner_of_configured_subnet_does_not_matter(self):
        self.vip('198.18.10.9', are_named=True)

    def test_vip_cannot_be_its_subnets_gateway(self):
        for self.shared_with, are_named in (['*'], False), ([], True):
            self.vip('198.18.10.2', are_named=are_named)
            self.vip_refused('vip_address', 'none that a VIP may have',
                             '198.18.10.1', are_named=are_named)
        self.network.get_subnet.return_value.gateway_ip = None
        self.vip('198.18.10.1', are_named=True)

    def test_vip_is_refused_without_an_answer(self):
        self.network.get_subnet.side_effect = OSError('connection refused')
        self.vip_refused('vip_subnet_id', 'try again')
        self.network.get_subnet.side_effect = SubnetNotFound('none')
        self.vip_refused('vip_subnet_id', 'there is no subnet')


class TestDriver(base.TestCase):

    def setUp(self):
        super().setUp()
        self.check = self.enterContext(mock.patch.object(
            subnets.ALL, 'check',
            side_effect=errors.Refused('subnet_id', 'a', 'b')))

    def refused(self, call, *arguments, check_subnets=False):
        """Return the checked members, and whether addresses were checked."""
        self.check.reset_mock()
        policy = dataclasses.replace(policies.POLICY,
                                     check_subnets=check_subnets)
        controller = mock.Mock(policy=policy)
        with mock.patch.object(controller_client.ControllerClient, 'get',
                               return_value=controller):
            self.assertRaises(
                exceptions.UnsupportedOptionError,
                getattr(provider.XdpProviderDriver(), call), *arguments)
        self.assertFalse(controller.change.called)
        (members, addresses), _ = self.check.call_args
        return [member.member_id for member in members], addresses

    def test_members_of_every_call_are_checked(self):
        member = data_models.Member(
            member_id='m', address='198.18.10.11', protocol_port=80,
            subnet_id=SUBNET)
        pool = data_models.Pool(pool_id='p', members=[member])
        listener = data_models.Listener(listener_id='l', default_pool=pool)
        for call, *arguments in (
                ('member_create', member),
                ('member_batch_update', 'p', [member]),
                ('pool_create', pool),
                ('listener_create', listener),
                ('loadbalancer_create', data_models.LoadBalancer(
                    loadbalancer_id='b', listeners=[listener])),
                ('loadbalancer_create', data_models.LoadBalancer(
                    loadbalancer_id='b', pools=[pool]))):
            self.assertEqual((['m'], False), self.refused(call, *arguments))

    def test_addresses_are_checked_if_configured(self):
        member = data_models.Member(member_id='m', address='198.18.10.11')
        self.assertEqual((['m'], True), self.refused(
            'member_create', member, check_subnets=True))

    def vips(self, call, *arguments, **policy):
        """Return the driver's arguments to check_vips()."""
        controller = mock.Mock(policy=dataclasses.replace(
            policies.POLICY, check_vip_subnets=True, **policy))
        with mock.patch.object(
                controller_client.ControllerClient, 'get',
                return_value=controller), mock.patch.object(
                    subnets.ALL, 'check_vips', side_effect=errors.Refused(
                        'vip_subnet_id', 'a', 'b')) as check:
            self.check.side_effect = None
            self.assertRaises(
                exceptions.UnsupportedOptionError,
                getattr(provider.XdpProviderDriver(), call), *arguments)
        self.assertFalse(controller.change.called)
        self.assertFalse(controller.check_answers.called)
        (fields, are_named), _ = check.call_args
        return fields['vip_subnet_id'], are_named

    def test_vips_are_checked_before_and_after_port_creation(self):
        named = dataclasses.replace(policies.POLICY.addresses,
                                    vip_subnet_ids=frozenset([SUBNET]))
        for policy, are_named in (
                ({}, False), ({'addresses': named}, True)):
            self.assertEqual((SUBNET, are_named), self.vips(
                'create_vip_port', 'b', 'p', {'vip_subnet_id': SUBNET},
                **policy))
            self.assertEqual((SUBNET, are_named), self.vips(
                'loadbalancer_create', data_models.LoadBalancer(
                    loadbalancer_id='b', vip_subnet_id=SUBNET,
                    vip_address='203.0.113.9'), **policy))
