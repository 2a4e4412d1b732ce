# SPDX-License-Identifier: Apache-2.0
"""What a lab cannot be asked for is refused before anything is started."""

from unittest import mock

from lab import deployment
from lab import paths
from octavia_xdp_provider.tests.unit import base


class TestDeployment(base.TestCase):

    def test_there_are_no_hypervisors_without_a_fabric(self):
        with mock.patch.object(deployment, '_afresh') as started:
            self.assertRaises(paths.LabError, deployment.up,
                              paths.Lab('refused'), control_only=True,
                              ovn=True)
        started.assert_not_called()

    def test_each_hypervisor_has_addresses_and_sids_of_its_own(self):
        found = [{paths.hypervisor_address(number),
                  paths.hypervisor_address(number, 6),
                  paths.tunnel_address(number),
                  paths.management_address(f'hv{number}'),
                  str(paths.sid_network(number))} for number in (1, 2)]
        self.assertEqual([5, 5], [len(one) for one in found])
        self.assertFalse(found[0] & found[1])
        self.assertEqual('2001:db8:33::1:0:0/96',
                         str(paths.sid_network(1)))
        for number in 1, 2:
            self.assertNotIn(paths.management_address(f'lb{number}'),
                             found[number - 1])
