# SPDX-License-Identifier: Apache-2.0
"""The driver's checks of addresses for members behind hypervisors."""

import dataclasses
import ipaddress
from unittest import mock

from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions

from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import provider
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.driver import policies

FABRIC, VM, OUTSIDE = '198.18.10.11', '10.0.0.5', '172.16.0.1'


class TestMemberNetworks(base.TestCase):

    def setUp(self):
        super().setUp()
        self.controller = mock.Mock(policy=dataclasses.replace(
            policies.POLICY, addresses=dataclasses.replace(
                policies.POLICY.addresses,
                member_networks=(ipaddress.ip_network('198.18.0.0/15'),),
                vm_networks=(ipaddress.ip_network('10.0.0.0/8'),))))
        self.enterContext(mock.patch.object(
            controller_client.ControllerClient, 'get',
            return_value=self.controller))
        self.driver = provider.XdpProviderDriver()

    def create(self, mode, *members):
        pool = data_models.Pool(
            pool_id='p', protocol='TCP', lb_algorithm='SOURCE_IP_PORT',
            members=[data_models.Member(member_id=f'm{number}', **member)
                     for number, member in enumerate(members)])
        self.driver.loadbalancer_create(data_models.LoadBalancer(
            loadbalancer_id='lb', vip_address='203.0.113.9', pools=[pool],
            flavor={'zero_touch': mode} if mode else None))

    def refused(self, call, *arguments):
        error = self.assertRaises(exceptions.UnsupportedOptionError, call,
                                  *arguments)
        self.assertNotIn('10.0.0.0/8', error.user_fault_string)
        self.assertIn('10.0.0.0/8', error.operator_fault_string)
        self.controller.change.assert_not_called()
        return error.user_fault_string

    def test_vm_addresses_need_zero_touch(self):
        for mode in (None, 'off'):
            self.refused(self.create, mode, {'address': FABRIC},
                         {'address': VM})
        for mode in ('preferred', 'required'):
            self.create(mode, {'address': FABRIC}, {'address': VM})

    def test_separate_monitor_address_must_be_on_the_fabric(self):
        text = self.refused(self.create, 'required', {
            'address': VM, 'monitor_address': '10.0.0.6'})
        self.assertIn('monitor_address', text)
        for address in (VM, FABRIC):
            self.create('required', {'address': VM,
                                     'monitor_address': address})

    def test_flavor_of_added_member_is_left_to_the_controller(self):
        self.driver.member_create(data_models.Member(
            member_id='m', pool_id='p', address=VM))
        self.driver.member_update(
            data_models.Member(member_id='m', pool_id='p'),
            data_models.Member(member_id='m', monitor_address=VM))
        self.controller.change.reset_mock()
        self.refused(self.driver.member_create, data_models.Member(
            member_id='m', pool_id='p', address=OUTSIDE))
