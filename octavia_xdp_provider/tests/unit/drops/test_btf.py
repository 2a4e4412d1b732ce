# SPDX-License-Identifier: Apache-2.0
"""Names and offsets from BTF."""

from octavia_xdp_provider.drops import btf
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.drops import btf_writer


class BtfTest(base.TestCase):

    def test_enum_in_both_byte_orders(self):
        for order in '<>':
            types = btf.Btf(btf_writer.kernel(order))
            self.assertEqual({0: 'XDP_ABORTED', 4: 'XDP_REDIRECT'},
                             types.enum('xdp_action'))
            self.assertEqual({-1: 'LOW'}, types.enum('signed'))
            self.assertEqual({(2 << 32) + 1: 'HIGH', -2: 'NEGATIVE'},
                             types.enum('wide'))

    def test_offsets(self):
        for order in '<>':
            types = btf.Btf(btf_writer.kernel(order))
            self.assertEqual(8, types.offset('sk_buff', 'dev'))
            self.assertEqual(4, types.offset('net_device', 'ifindex'))
            self.assertEqual(20, types.offset('net', 'ns.inum'))

    def test_offset_in_unnamed_structures_and_through_a_typedef(self):
        types = btf.Btf(btf_writer.kernel())
        self.assertEqual(22, types.offset('sk_buff', 'network_header'))
        self.assertEqual(24, types.offset('net_device', 'nd_net.net'))

    def test_what_is_not_there_is_named(self):
        types = btf.Btf(btf_writer.kernel())
        for call, text in (
                (lambda: types.enum('nothing'), 'enum nothing'),
                # The end of a name that is there.
                (lambda: types.enum('action'), 'enum action'),
                # A structure, and no enumeration.
                (lambda: types.enum('net'), 'enum net'),
                (lambda: types.offset('buff', 'dev'), 'struct buff'),
                (lambda: types.offset('sk_buff', 'cb'), 'sk_buff has no cb'),
                (lambda: types.offset('sk_buff', 'dev.name'),
                 'sk_buff has no dev.name')):
            self.assertIn(text, str(self.assertRaises(btf.BtfError, call)))

    def test_no_btf(self):
        data = btf_writer.kernel()
        for broken in (b'', b'\x7fELF', data[:20], data[:60]):
            self.assertRaises(btf.BtfError, btf.Btf, broken)
