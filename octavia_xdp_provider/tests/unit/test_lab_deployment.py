# SPDX-License-Identifier: Apache-2.0
"""Impossible labs are refused before anything is started."""

from unittest import mock

from lab import deployment
from lab import paths
from octavia_xdp_provider.tests.unit import base


class TestDeployment(base.TestCase):

    def test_hypervisors_without_fabric_are_refused(self):
        with mock.patch.object(deployment, '_start_from_scratch') as started:
            self.assertRaises(paths.LabError, deployment.up,
                              paths.Lab('refused'), control_only=True,
                              ovn=True)
        started.assert_not_called()

    def test_each_hypervisor_has_its_own_addresses_and_sids(self):
        addresses = [{paths.hypervisor_address(number),
                      paths.hypervisor_address(number, 6),
                      paths.tunnel_address(number),
                      paths.management_address(f'hv{number}'),
                      str(paths.sid_network(number))} for number in (1, 2)]
        self.assertEqual([5, 5], list(map(len, addresses)))
        self.assertFalse(addresses[0] & addresses[1])
        self.assertEqual('2001:db8:33::1:0:0/96',
                         str(paths.sid_network(1)))
        for number in 1, 2:
            self.assertNotIn(paths.management_address(f'lb{number}'),
                             addresses[number - 1])
