# SPDX-License-Identifier: Apache-2.0
"""Load balancers with several VIPs: a key per listener, member and VIP."""

from octavia_xdp_provider.tests.unit.controller import hypervisors
from octavia_xdp_provider.tests.unit.controller.cases import several_vips


class TestOneFamily(several_vips.SeveralVipsTestCase):

    ADDITIONAL = ['203.0.113.11']

    def test_both_vips_use_the_members_address(self):
        self.create()
        self.converge()
        entries = self.entries(self.hv1, 'm1')
        self.assertEqual({several_vips.VIP, '203.0.113.11'}, set(entries))
        self.assertEqual({hypervisors.ADDRESSES['m1']}, {
            one['address'] for one in entries.values()})
        self.assertEqual(2, len({one['key'] for one in entries.values()}))
