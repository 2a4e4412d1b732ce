# SPDX-License-Identifier: Apache-2.0
"""Rows from the tracing program's maps, with the maps replaced."""

import ctypes
from unittest import mock

import fixtures

from octavia_xdp_provider.drops import environment
from octavia_xdp_provider.drops import kernel
from octavia_xdp_provider.drops import libbpf
from octavia_xdp_provider.drops import program
from octavia_xdp_provider.drops import rows
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.drops import support

VIP, VIP6 = '203.0.113.10', '2001:db8::10'
SYMBOLS = {0x100: b'udp_rcv', 0x108: b'udp_rcv'}


class Address(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_uint8 * 16)]

    def __hash__(self):
        return hash(bytes(self))

    def __eq__(self, other):
        return bytes(self) == bytes(other)


class Drop(ctypes.Structure):
    _fields_ = [('vip', Address), ('location', ctypes.c_uint64),
                ('reason', ctypes.c_uint32), ('ifindex', ctypes.c_uint32),
                ('netns', ctypes.c_uint32), ('protocol', ctypes.c_uint8),
                ('to_vip', ctypes.c_uint8),
                ('encapsulation', ctypes.c_uint8),
                ('reserved', ctypes.c_uint8)]


class XdpDrop(ctypes.Structure):
    _fields_ = [('event', ctypes.c_uint32), ('program', ctypes.c_uint32),
                ('action', ctypes.c_uint32), ('ifindex', ctypes.c_int32),
                ('to_ifindex', ctypes.c_int32), ('error', ctypes.c_int32)]


class Vips(dict):
    Key = Address
    Leaf = ctypes.c_uint8

    def addresses(self):
        return {kernel.unpacked(key.bytes) for key in self}


class Items(list):
    def items(self):
        return self

    def values(self):
        return [value for _key, value in self]


def drop(vip=VIP, location=0x100, **more):
    fields = {'reason': 3, 'ifindex': 1, 'protocol': 17, 'to_vip': 1, **more}
    return Drop(vip=Address((ctypes.c_uint8 * 16)(*kernel.packed(vip))),
                location=location, **fields)


class KernelTest(base.TestCase):

    def setUp(self):
        super().setUp()
        self.maps = {'vips': Vips(), 'drops': Items(), 'xdp_drops': Items(),
                     'missed': Items()}
        bcc = mock.Mock()
        bcc.BPF.ksym = lambda address: SYMBOLS.get(address, b'[unknown]')
        types = libbpf.Btf(support.kernel().write(
            self.useFixture(fixtures.TempDir()).join('btf')))
        for where, name, value in (
                (environment, 'bcc', bcc),
                (environment, 'privileges', None),
                (environment, 'types', types),
                (environment, 'tracepoints', '/nowhere')):
            self.useFixture(fixtures.MockPatchObject(
                where, name, return_value=value))
        self.useFixture(fixtures.MockPatchObject(
            program, 'load', lambda *unused: self.maps))
        self.useFixture(fixtures.MockPatchObject(
            libbpf, 'program_name', lambda number: f'p{number}'))
        self.kernel = kernel.Kernel()

    def row(self, table, key):
        self.maps[table].append((key, [1]))
        row, = self.kernel.read()
        return row

    def test_ipv4_addresses_are_packed_as_mapped_ipv6(self):
        self.assertEqual('00000000000000000000ffffcb00710a',
                         kernel.packed(VIP).hex())
        for text in (VIP, VIP6):
            self.assertEqual(text, kernel.unpacked(kernel.packed(text)))

    def test_vips_are_added_and_removed(self):
        self.kernel.watch([VIP, VIP6])
        self.assertEqual({VIP, VIP6}, self.maps['vips'].addresses())
        self.kernel.watch(['203.0.113.11', VIP6])
        self.assertEqual({'203.0.113.11', VIP6},
                         self.maps['vips'].addresses())

    def test_more_vips_than_the_map_holds_are_refused(self):
        error = self.assertRaises(
            environment.Missing, self.kernel.watch,
            range(program.VIPS_MAX + 1))
        self.assertIn('--vip', str(error))

    def test_drop_by_stack_becomes_row(self):
        self.assertEqual(
            rows.Row('kernel', 'NO_SOCKET', where='udp_rcv', vip=VIP,
                     direction='to', protocol='UDP', ifindex=1,
                     interface='lo'),
            self.row('drops', drop()))

    def test_inner_packet_in_another_namespace_becomes_row(self):
        self.assertEqual(
            rows.Row('kernel', 'NO_SOCKET', where='0x200', vip=VIP6,
                     direction='from', protocol='TCP', encapsulation='IPV6',
                     ifindex=1, namespace=1),
            self.row('drops', drop(VIP6, 0x200, to_vip=0, protocol=6,
                                   encapsulation=41, netns=1)))

    def test_counts_of_cpus_and_places_in_a_function_are_summed(self):
        self.maps['drops'] += [(drop(), [1, 2]), (drop(location=0x108), [4]),
                               (drop(VIP6), [8])]
        self.assertEqual({VIP: 7, VIP6: 8}, {
            row.vip: count for row, count in self.kernel.read().items()})

    def test_xdp_exception_has_the_action_as_reason(self):
        self.assertEqual(
            rows.Row('xdp', 'XDP_ABORTED', where='xdp_exception', ifindex=1,
                     interface='lo', action='XDP_ABORTED', program='p7',
                     program_id=7),
            self.row('xdp_drops', XdpDrop(program=7, ifindex=1)))

    def test_redirect_error_has_the_error_as_reason(self):
        self.assertEqual(
            rows.Row('xdp', 'EINVAL', where='xdp_redirect_err', ifindex=1,
                     interface='lo', to_ifindex=9, action='XDP_REDIRECT',
                     program='p7', program_id=7),
            self.row('xdp_drops', XdpDrop(
                event=1, program=7, action=4, ifindex=1, to_ifindex=9,
                error=-22)))

    def test_rows_of_transmission_have_no_program(self):
        self.assertEqual(
            [('xdp_bulk_tx', 'NO_ERROR_GIVEN', None),
             ('xdp_devmap_xmit', 'EINVAL', None)],
            sorted((row.where, row.reason, row.program) for row in (
                self.kernel._xdp_drop(XdpDrop(event=2, error=-22)),
                self.kernel._xdp_drop(XdpDrop(event=3)))))

    def test_missed_packets_of_all_cpus_are_summed(self):
        self.maps['missed'].append((0, [3, 4]))
        self.assertEqual(7, self.kernel.missed())
