# SPDX-License-Identifier: Apache-2.0
"""Names of numbers."""

import fixtures

from octavia_xdp_provider.drops import libbpf
from octavia_xdp_provider.drops import names
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.drops import support


class NamesTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.file = self.useFixture(fixtures.TempDir()).join('btf')
        self.names = names.Names(libbpf.Btf(support.kernel().write(self.file)))

    def test_unknown_reasons_are_numbers_in_their_subsystem(self):
        self.assertEqual('4711', self.names.reason(4711))
        self.assertEqual('OPENVSWITCH_5', self.names.reason(2 << 16 | 5))
        self.assertEqual(str(9 << 16 | 5), self.names.reason(9 << 16 | 5))

    def test_reasons_are_named_without_subsystems(self):
        writer = support.Writer()
        for name in ('skb_drop_reason', 'xdp_action'):
            writer.enum(name, {'ZERO': 0})
        older = names.Names(libbpf.Btf(writer.write(self.file)))
        self.assertEqual('ZERO', older.reason(0))
        self.assertEqual(str(2 << 16), older.reason(2 << 16))

    def test_actions_errors_and_protocols_have_names(self):
        self.assertEqual(['XDP_ABORTED', '9'],
                         [self.names.action(number) for number in (0, 9)])
        self.assertEqual(['EINVAL', '-9999'],
                         [self.names.error(number) for number in (-22, -9999)])
        self.assertEqual(
            ['ICMP', 'IPIP', 'TCP', 'UDP', 'IPV6', 'GRE', 'SCTP', '253'],
            [self.names.protocol(number)
             for number in (1, 4, 6, 17, 41, 47, 132, 253)])

    def test_interface_has_a_name_only_in_its_own_namespace(self):
        own = self.names.namespace
        self.assertEqual(('lo', None), self.names.interface(1))
        self.assertEqual(('lo', None), self.names.interface(1, own))
        # The same index in another namespace is another interface.
        self.assertEqual((None, own + 1), self.names.interface(1, own + 1))
        self.assertEqual((None, None), self.names.interface(0))
        self.assertEqual((None, None), self.names.interface(-1))
