# SPDX-License-Identifier: Apache-2.0
"""Lists of the kernel's interfaces, which may change while they are read."""

from unittest import mock

from pyroute2.netlink import exceptions

from octavia_xdp_provider.host import links
from octavia_xdp_provider.tests.unit import base


class TestLinks(base.TestCase):

    def setUp(self):
        super().setUp()
        self.links = links.Links()
        self.addCleanup(self.links.close)
        # Links of the machine may come and go meanwhile.
        self.messages = list(self.links._netlink.get_links())

    def interrupted(self, times):
        """Lists of links, the first ones of which are interrupted."""
        netlink = self.links._netlink
        left = [True] * times

        def listed():
            yield from self.messages
            if left:
                left.pop()
                raise exceptions.NetlinkDumpInterrupted
        return mock.patch.object(netlink, 'get_links', listed)

    def test_list_that_is_interrupted_is_asked_for_again(self):
        with self.interrupted(3):
            links = self.links.links()
        self.assertEqual(1, links['lo'].index)
        self.assertEqual(len(self.messages), len(links))

    def test_endlessly_interrupted_list_is_an_error(self):
        with self.interrupted(1000):
            self.assertRaises(OSError, self.links.links)
