# SPDX-License-Identifier: Apache-2.0
"""Ports of VIPs whose load balancer does not exist."""

import datetime
from unittest import mock

from octavia_xdp_provider.controller.neutron_ports import client as neutron
from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.controller.octavia import client as octavia
from octavia_xdp_provider.controller.octavia import errors as octavia_errors
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.manage import base


def port(load_balancer_id, hours=2, address='203.0.113.50', **more):
    """Return a port that Octavia created so many hours ago."""
    created = datetime.datetime.now(
        datetime.timezone.utc) - datetime.timedelta(hours=hours)
    return {'id': f'port-{load_balancer_id}', 'project_id': 'tenant',
            'device_id': f'lb-{load_balancer_id}',
            'fixed_ips': [{'subnet_id': 's', 'ip_address': address}],
            'created_at': created.strftime('%Y-%m-%dT%H:%M:%SZ'), **more}


class TestOrphans(base.ManageTestCase):

    def setUp(self):
        super().setUp()
        self.configure('[vip]\nallowed_networks = 203.0.113.0/24\n')
        self.octavia = store_base.FakeOctavia()
        self.neutron = mock.Mock()
        for module, name, fake in ((octavia, 'Octavia', self.octavia),
                                   (neutron, 'Neutron', self.neutron)):
            self.enterContext(mock.patch.object(
                module, name, lambda conf, fake=fake: fake))
        self.octavia.commit(unit.document())
        self.orphan = port('gone')
        self.ports = [port('lb'), self.orphan]
        self.neutron.ports_of_owner.side_effect = lambda owner: self.ports

    def orphans(self, *options):
        """Return (exit status, ids of the listed ports)."""
        status, out, err = self.run_command(
            'vip-port', 'orphans', *options, '-f', 'value', '-c', 'port')
        self.assertIn(status, (0, 2), err)
        return status, out.split()

    def test_port_without_a_load_balancer_is_listed_and_stays(self):
        self.assertEqual((2, ['port-gone']), self.orphans())
        self.neutron.ports_of_owner.assert_called_once_with('Octavia')
        self.neutron.delete_port.assert_not_called()

    def test_delete_removes_orphans_alone(self):
        self.assertEqual((0, ['port-gone']), self.orphans('--delete'))
        self.neutron.delete_port.assert_called_once_with('port-gone')

    def test_ports_that_may_be_in_use_are_no_orphans(self):
        for other in (port('young', hours=0.9),
                      port('undated', created_at=None),
                      port('foreign', address='198.51.100.7'),
                      port('amphora', device_id='amphora-1')):
            with self.subTest(port=other['id']):
                self.ports = [other]
                self.assertEqual((0, []), self.orphans('--delete'))
        self.neutron.delete_port.assert_not_called()

    def test_load_balancer_of_another_provider_keeps_its_port(self):
        self.octavia.listed = lambda: iter(())
        self.assertEqual((2, ['port-gone']), self.orphans())

    def test_load_balancer_that_appears_meanwhile_keeps_its_port(self):
        answers = iter((None, 'PENDING_CREATE'))
        self.octavia.provisioning_status = lambda key: next(answers)
        status, out, err = self.run_command(
            'vip-port', 'orphans', '--delete', '-f', 'value', '-c', 'deleted')
        self.assertEqual((0, 'False\n'), (status, out), err)
        self.neutron.delete_port.assert_not_called()

    def test_nothing_is_deleted_without_answers(self):
        self.octavia.provisioning_status = mock.Mock(
            side_effect=octavia_errors.OctaviaUnavailable('no Octavia'))
        self.assertIn('no Octavia',
                      self.refused('vip-port', 'orphans', '--delete'))
        self.neutron.ports_of_owner.side_effect = (
            errors.NeutronUnavailable('no Neutron'))
        self.assertIn('no Neutron',
                      self.refused('vip-port', 'orphans', '--delete'))
        self.neutron.delete_port.assert_not_called()
