# SPDX-License-Identifier: Apache-2.0
"""Names of numbers."""

import ctypes
import os

from octavia_xdp_provider.drops import btf
from octavia_xdp_provider.drops import names
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.drops import btf_writer


class Library:
    """libbpf with one program, of number 7."""

    def __init__(self, name):
        self.name = name
        self.descriptor = None

    def bpf_prog_get_fd_by_id(self, number):
        if number.value != 7:
            return -2
        self.descriptor = os.open(os.devnull, os.O_RDONLY)
        return self.descriptor

    def bpf_obj_get_info_by_fd(self, descriptor, info, length):
        info[64:64 + len(self.name)] = self.name
        return 0 if descriptor.value == self.descriptor else -9


class NamesTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.names = names.Names(btf.Btf(btf_writer.kernel()))

    def test_reasons_are_those_of_the_kernel(self):
        self.assertEqual('NO_SOCKET', self.names.reason(3))
        self.assertEqual('SKB_NOT_DROPPED_YET', self.names.reason(0))

    def test_reasons_that_are_not_in_its_enum(self):
        self.assertEqual('4711', self.names.reason(4711))
        self.assertEqual('OPENVSWITCH_5', self.names.reason(2 << 16 | 5))
        self.assertEqual(str(9 << 16 | 5), self.names.reason(9 << 16 | 5))

    def test_a_kernel_without_subsystems(self):
        writer = btf_writer.Writer()
        for name in ('skb_drop_reason', 'xdp_action'):
            writer.add(btf_writer.ENUM, name, elements=[('ZERO', 0)])
        older = names.Names(btf.Btf(writer.finish()))
        self.assertEqual('ZERO', older.reason(0))
        self.assertEqual(str(2 << 16), older.reason(2 << 16))

    def test_actions_errors_and_protocols(self):
        self.assertEqual(['XDP_ABORTED', '9'],
                         [self.names.action(one) for one in (0, 9)])
        self.assertEqual(['EINVAL', '-9999'],
                         [self.names.error(one) for one in (-22, -9999)])
        self.assertEqual(
            ['ICMP', 'IPIP', 'TCP', 'UDP', 'IPV6', 'GRE', 'SCTP', '253'],
            [self.names.protocol(one)
             for one in (1, 4, 6, 17, 41, 47, 132, 253)])

    def test_interfaces(self):
        own = self.names.namespace
        self.assertEqual(('lo', None), self.names.interface(1))
        self.assertEqual(('lo', None), self.names.interface(1, own))
        # Another namespace's first interface is not called as ours.
        self.assertEqual((None, own + 1), self.names.interface(1, own + 1))
        self.assertEqual((None, None), self.names.interface(0))
        self.assertEqual((None, None), self.names.interface(-1))

    def test_programs(self):
        self.assertEqual('forward',
                         names.program_name(Library(b'forward'), 7))
        self.assertEqual('of_16_characters',
                         names.program_name(Library(b'of_16_characters'), 7))
        self.assertIsNone(names.program_name(Library(b''), 7))
        self.assertIsNone(names.program_name(Library(b'forward'), 8))

    def test_descriptors_of_programs_are_closed(self):
        library = Library(b'forward')
        names.program_name(library, 7)
        self.assertRaises(OSError, os.fstat, library.descriptor)

    def test_layout_of_program_information(self):
        class Information(ctypes.Structure):
            # struct bpf_prog_info of linux/bpf.h, up to the name.
            _fields_ = [('words', ctypes.c_uint32 * 2),
                        ('tag', ctypes.c_uint8 * 8),
                        ('lengths', ctypes.c_uint32 * 2),
                        ('instructions', ctypes.c_uint64 * 2),
                        ('load_time', ctypes.c_uint64),
                        ('created_by_uid', ctypes.c_uint32),
                        ('nr_map_ids', ctypes.c_uint32),
                        ('map_ids', ctypes.c_uint64),
                        ('name', ctypes.c_char * 16)]
        self.assertEqual(Information.name.offset, names.PROGRAM_NAME_OFFSET)
