# SPDX-License-Identifier: Apache-2.0

import dataclasses
import types
from unittest import mock
import uuid

from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import provider
from octavia_xdp_provider.driver import subnets
from octavia_xdp_provider.driver import support
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.driver import test_support

SUBNET = str(uuid.uuid4())


class SubnetNotFound(Exception):
    """As Octavia's network drivers raise it."""


class TestSubnets(base.TestCase):

    def setUp(self):
        super().setUp()
        self.network = mock.Mock()
        self.network.get_subnet.return_value = types.SimpleNamespace(
            cidr='198.18.10.0/24')
        for name, value in (
                ('driver.DriverManager', mock.Mock(
                    return_value=types.SimpleNamespace(
                        driver=self.network))),
                ('cfg', mock.Mock())):
            patch = mock.patch(f'{subnets.__name__}.{name}', value)
            patch.start()
            self.addCleanup(patch.stop)
        self.subnets = subnets.Subnets()

    def member(self, address='198.18.10.11', subnet=SUBNET):
        return data_models.Member(address=address, subnet_id=subnet)

    def refused(self, *members):
        error = self.assertRaises(errors.Refused, self.subnets.check, members)
        self.assertEqual('subnet_id', error.option)
        return str(error)

    def test_an_address_in_its_subnet(self):
        self.subnets.check([self.member(), self.member('198.18.10.255')])

    def test_an_address_beside_its_subnet_is_refused(self):
        for address in ('198.18.11.1', '2001:db8::1'):
            self.assertIn('198.18.10.0/24',
                          self.refused(self.member(address)))

    def test_a_subnet_that_is_not_there_is_refused(self):
        self.network.get_subnet.side_effect = SubnetNotFound('none')
        self.assertIn('there is no subnet', self.refused(self.member()))

    def test_no_answer_is_no_leave(self):
        self.network.get_subnet.side_effect = OSError('connection refused')
        self.assertIn('try again', self.refused(self.member()))
        self.network.get_subnet.side_effect = None
        self.subnets.check([self.member()])

    def test_a_subnet_is_asked_for_once(self):
        self.subnets.check([self.member()] * 500)
        self.network.get_subnet.assert_called_once_with(SUBNET)

    def test_members_without_a_subnet_ask_nobody(self):
        self.subnets.check([self.member(subnet=None),
                            self.member(subnet=data_models.Unset)])
        self.network.get_subnet.assert_not_called()

    def test_members_below_a_load_balancer_are_found(self):
        one, two = self.member(), self.member('198.18.10.12')
        pool = data_models.Pool(members=[one])
        balancer = data_models.LoadBalancer(
            pools=[pool], listeners=[data_models.Listener(
                default_pool=data_models.Pool(members=[two]))])
        self.assertEqual([two, one], list(support.members_of(
            'loadbalancer', balancer)))


class TestDriver(base.TestCase):

    def asked(self, check_subnets):
        """What the driver asks of, in a batch that is refused for it."""
        refuse = mock.Mock(side_effect=errors.Refused('subnet_id', 'a', 'b'))
        policy = dataclasses.replace(test_support.POLICY,
                                     check_subnets=check_subnets)
        controller = mock.Mock(policy=policy)
        member = data_models.Member(
            member_id='m', address='198.18.10.11', protocol_port=80,
            subnet_id=SUBNET)
        with mock.patch.object(controller_client.ControllerClient, 'get',
                               return_value=controller), \
                mock.patch.object(subnets.ALL, 'check', refuse):
            driver = provider.XdpProviderDriver()
            if check_subnets:
                self.assertRaises(exceptions.UnsupportedOptionError,
                                  driver.member_batch_update, 'p', [member])
            else:
                driver.member_batch_update('p', [member])
        self.assertEqual(not check_subnets, controller.change.called)
        return refuse.called

    def test_only_where_the_operator_wants_it(self):
        self.assertFalse(self.asked(False))
        self.assertTrue(self.asked(True))
