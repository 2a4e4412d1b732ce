# SPDX-License-Identifier: Apache-2.0

import ipaddress

from octavia_xdp_provider.contracts import persistence
from octavia_xdp_provider.tests.unit import base


class TestPrefix(base.TestCase):

    def test_every_netmask_gives_family_and_length(self):
        for version, network in ((4, '0.0.0.0'), (6, '::')):
            bits = ipaddress.ip_address(network).max_prefixlen
            for length in range(1, bits + 1):
                mask = ipaddress.ip_network(f'{network}/{length}').netmask
                self.assertEqual((version, length),
                                 persistence.prefix(str(mask)))

    def test_invalid_netmask_is_refused(self):
        for text in ('0.0.0.0', '::', '0.255.255.255', '255.0.255.0',
                     '192.0.2.1', '::1', 'ffff::1', '24', ''):
            self.assertRaises(ValueError, persistence.prefix, text)
