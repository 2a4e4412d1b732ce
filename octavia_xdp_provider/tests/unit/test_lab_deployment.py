# SPDX-License-Identifier: Apache-2.0
"""Impossible labs are refused before anything is started."""

import itertools
from unittest import mock

from lab import deployment
from lab import paths
from lab.fabric import proxies
from octavia_xdp_provider.tests.unit import base


class TestDeployment(base.TestCase):

    def test_nodes_without_fabric_are_refused(self):
        for nodes in {'ovn': True}, {'proxies': 2}:
            with mock.patch.object(deployment,
                                   '_start_from_scratch') as started:
                self.assertRaises(paths.LabError, deployment.up,
                                  paths.Lab('refused'), control_only=True,
                                  **nodes)
            started.assert_not_called()

    def test_no_two_proxy_nodes_of_labs_share_uids(self):
        ranges = [options['proxy'] for lab in (paths.Lab('a'), paths.Lab('b'))
                  for options in (proxies.own_options(lab, node)
                                  for node in proxies.NAMES)]
        ranges.sort(key=lambda options: options['number_min'])
        for before, after in itertools.pairwise(ranges):
            self.assertLess(before['number_max'], after['number_min'])
        self.assertLess(ranges[-1]['number_max'], 2 ** 31)

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
