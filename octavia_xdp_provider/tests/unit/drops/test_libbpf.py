# SPDX-License-Identifier: Apache-2.0
"""Names and offsets from BTF, and names of programs."""

import os
from unittest import mock

import fixtures

from octavia_xdp_provider.drops import libbpf
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.drops import support


class BtfTest(base.TestCase):

    def types(self, **more):
        path = self.useFixture(fixtures.TempDir()).join('btf')
        return libbpf.Btf(support.kernel().write(path, **more))

    def test_enums_are_read_in_both_byte_orders(self):
        for big_endian in False, True:
            types = self.types(big_endian=big_endian)
            self.assertEqual({0: 'XDP_ABORTED', 4: 'XDP_REDIRECT'},
                             types.enum('xdp_action'))
            self.assertEqual({-1: 'LOW'}, types.enum('signed'))
            self.assertEqual({(2 << 32) + 1: 'HIGH', -2: 'NEGATIVE'},
                             types.enum('wide'))

    def test_offsets_are_read_in_both_byte_orders(self):
        for big_endian in False, True:
            types = self.types(big_endian=big_endian)
            self.assertEqual(8, types.offset('sk_buff', 'dev'))
            self.assertEqual(4, types.offset('net_device', 'ifindex'))
            self.assertEqual(20, types.offset('net', 'ns.inum'))

    def test_offset_is_found_in_unnamed_structures_and_behind_typedef(self):
        types = self.types()
        self.assertEqual(22, types.offset('sk_buff', 'network_header'))
        self.assertEqual(24, types.offset('net_device', 'nd_net.net'))

    def test_error_names_the_type_or_member_that_is_missing(self):
        types = self.types()
        for call, text in (
                (lambda: types.enum('nothing'), 'enum nothing'),
                # The suffix of an existing name.
                (lambda: types.enum('action'), 'enum action'),
                # A structure instead of an enumeration.
                (lambda: types.enum('net'), 'enum net'),
                (lambda: types.offset('buff', 'dev'), 'struct buff'),
                (lambda: types.offset('sk_buff', 'cb'), 'sk_buff has no cb'),
                (lambda: types.offset('sk_buff', 'dev.name'),
                 'sk_buff has no dev.name'),
                (lambda: types.offset('sk_buff', 'skb_iif.name'),
                 'sk_buff has no skb_iif.name')):
            self.assertIn(text,
                          str(self.assertRaises(libbpf.BtfError, call)))

    def test_broken_or_missing_btf_is_refused(self):
        path = self.useFixture(fixtures.TempDir()).join('btf')
        data = support.kernel().raw()
        for broken in (b'', b'\x7fELF', data[:20], data[:60]):
            with open(path, 'wb') as file:
                file.write(broken)
            self.assertNotIn('Unknown error', str(self.assertRaises(
                libbpf.BtfError, libbpf.Btf, path)))
        self.assertIn('No such file', str(self.assertRaises(
            libbpf.BtfError, libbpf.Btf, path + '-not')))


class FakeLibrary:
    """libbpf with one program, of number 7."""

    def __init__(self, name):
        self.name = name
        self.descriptor = None

    def bpf_prog_get_fd_by_id(self, number):
        if number != 7:
            return -2
        self.descriptor = os.open(os.devnull, os.O_RDONLY)
        return self.descriptor

    def bpf_obj_get_info_by_fd(self, descriptor, info, length):
        # The offset of the name in struct bpf_prog_info of linux/bpf.h.
        libbpf.FFI.buffer(info)[64:64 + len(self.name)] = self.name
        return 0 if descriptor == self.descriptor else -9


class ProgramNameTest(base.TestCase):

    def name(self, name, number=7):
        self.library = FakeLibrary(name)
        with mock.patch.object(libbpf, 'library', lambda: self.library):
            return libbpf.program_name(number)

    def test_name_of_up_to_16_characters_is_complete(self):
        self.assertEqual('forward', self.name(b'forward'))
        self.assertEqual('of_16_characters', self.name(b'of_16_characters'))

    def test_name_of_unnamed_or_unloaded_program_is_none(self):
        self.assertIsNone(self.name(b''))
        self.assertIsNone(self.name(b'forward', number=8))

    def test_descriptor_of_program_is_closed(self):
        self.name(b'forward')
        self.assertRaises(OSError, os.fstat, self.library.descriptor)
