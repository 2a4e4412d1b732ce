# SPDX-License-Identifier: Apache-2.0

import ipaddress
from unittest import mock

from oslotest import base

from octavia_xdp_provider.agent.uplinks import path_mtu
from octavia_xdp_provider.node import netlink

MEMBER = '198.18.10.11'


class TestPathMtu(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.kernel = mock.Mock(spec=netlink.Kernel)
        self.kernel.route_mtus.return_value = {}
        self.kernel.path_mtu.return_value = 1400
        self.paths = path_mtu.PathMtu(self.kernel)

    def knows(self, **mtus):
        self.kernel.route_mtus.return_value = {
            ipaddress.ip_network('198.18.10.0/24'): mtu
            for mtu in mtus.values()}
        self.paths.refresh()

    def test_kernel_is_not_asked_without_route_mtus(self):
        self.paths.refresh()
        self.assertEqual(0, self.paths.of(MEMBER))
        self.kernel.path_mtu.assert_not_called()

    def test_asked_once_until_something_changes(self):
        self.knows(mtu=1400)
        for _ in range(3):
            self.assertEqual(1400, self.paths.of(MEMBER))
            self.knows(mtu=1400)
        self.assertEqual(1, self.kernel.path_mtu.call_count)
        self.kernel.path_mtu.return_value = 1300
        self.knows(mtu=1300)
        self.assertEqual(1300, self.paths.of(MEMBER))
        self.knows()
        self.assertEqual(0, self.paths.of(MEMBER))

    def test_only_where_a_route_may_lead_to_is_asked(self):
        self.kernel.route_mtus.return_value = {
            ipaddress.ip_network(network): 1400 for network
            in ('198.18.10.12/32', '2001:db8:10::/64')}
        self.paths.refresh()
        for address, mtu in ((MEMBER, 0), ('198.18.10.12', 1400),
                             ('2001:db8:10::7', 1400),
                             ('2001:db8:11::7', 0)):
            self.assertEqual(mtu, self.paths.of(address))
        self.assertEqual(2, self.kernel.path_mtu.call_count)

    def test_mtu_of_the_uplink_holds_without_a_route(self):
        self.knows(mtu=1400)
        self.kernel.path_mtu.side_effect = OSError(101, 'unreachable')
        self.assertEqual(0, self.paths.of(MEMBER))

    def test_mtu_beyond_any_packet_is_bounded(self):
        self.kernel.path_mtu.return_value = 70000
        self.knows(mtu=70000)
        self.assertEqual(65535, self.paths.of(MEMBER))

    def test_configured_mtu_holds_for_all(self):
        self.paths = path_mtu.PathMtu(self.kernel, 1450)
        self.knows(mtu=1400)
        self.assertEqual(1450, self.paths.of(MEMBER))
        self.kernel.route_mtus.assert_not_called()
