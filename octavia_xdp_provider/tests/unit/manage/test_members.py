# SPDX-License-Identifier: Apache-2.0
"""Commands that show the ports of members."""

from unittest import mock

from octavia_xdp_provider.controller.neutron_ports import client
from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller import ports
from octavia_xdp_provider.tests.unit.manage import base


class TestMembers(base.ManageTestCase):

    def setUp(self):
        super().setUp()
        document = unit.document(project_id='red')
        document['id'] = 'a'
        members = document['pools']['pool']['members']
        members['m1'].update(address='10.0.0.11', subnet_id='sub-red')
        self.store.load_balancers.create(document)

    def neutron(self, neutron):
        self.enterContext(mock.patch.object(
            client, 'Neutron', lambda conf: neutron))

    def test_list_has_hypervisor_of_each_member_or_the_reason(self):
        self.neutron(ports.Neutron([
            ports.port(), ports.router_port()]))
        first, second = self.listed('lb', 'members', 'web')
        self.assertEqual(
            ('m1', 'hv1', True, '', 'group-red', 'ipip'),
            tuple(first[name] for name in (
                'member', 'hypervisor', 'has_tap', 'reason',
                'security_groups', 'encapsulation')))
        self.assertEqual(('m2', None, False), tuple(
            second[name] for name in ('member', 'hypervisor', 'has_tap')))
        self.assertIn('no port in project red', second['reason'])

    def test_migration_and_open_port_are_shown(self):
        self.neutron(ports.Neutron([
            ports.port(
                port_security_enabled=False,
                **{'binding:profile': {'migrating_to': 'hv2'}}),
            ports.router_port()]))
        first, _second = self.listed('lb', 'members', 'a')
        self.assertEqual(('hv1, moving to hv2', 'open'), (
            first['hypervisor'], first['security_groups']))

    def test_missing_credentials_are_named(self):
        self.assertIn('[neutron] auth_type', self.refused(
            'lb', 'members', 'a'))

    def test_unavailable_neutron_is_an_error(self):
        neutron = ports.Neutron([])
        neutron.ports = mock.Mock(
            side_effect=errors.NeutronUnavailable('no route'))
        self.neutron(neutron)
        self.assertIn('no route', self.refused('lb', 'members', 'a'))
