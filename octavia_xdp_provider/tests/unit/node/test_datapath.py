# SPDX-License-Identifier: Apache-2.0
"""The binding against the text of the header; no library is loaded."""

import ipaddress
import pathlib
import re

import cffi
from oslotest import base

from octavia_xdp_provider.config import node_options
from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.node import library
from octavia_xdp_provider.node import types

HEADER = (pathlib.Path(__file__).parents[4]
          / 'datapath/include/octavia_xdp.h')


def entries(match):
    """The entries of the contract that the header includes here."""
    macro, prefix = match.groups()
    return ''.join(f'{prefix}{entry.name} = {entry.number},\n'
                   for entry in enumerations.CONTRACT[macro])


def definitions():
    """The header as the library carries it: integer defines, no others."""
    text = re.sub(r'#ifdef __cplusplus.*?#endif', '', HEADER.read_text(),
                  flags=re.DOTALL)
    text = re.sub(r'#define (\w+)\(.*\) (\w+)##name = number,\n'
                  r'#include "enumerations.h"\n', entries, text)
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.DOTALL)
    return '\n'.join(
        line for line in text.splitlines()
        if not line.startswith('#')
        or re.fullmatch(r'#define \w+ \d+ *', line))


class Unloaded(library.Library):
    """Types and conversions alone."""

    def __init__(self):
        self.ffi = cffi.FFI()
        self.ffi.cdef(definitions())

    def enum(self, name):
        """The names of an enum without prefix → their values."""
        return {key.removeprefix(_PREFIXES[name]): value for key, value
                in self.ffi.typeof(f'enum {name}').relements.items()}


_PREFIXES = {'oxp_node_flag': 'OXP_NODE_',
             'oxp_service_flag': 'OXP_SERVICE_'}


class TestHeader(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.library = Unloaded()

    def define(self, name):
        return int(re.search(rf'#define {name} (\d+)',
                             HEADER.read_text())[1])

    def test_versions_and_maxima_are_those_of_the_header(self):
        self.assertEqual(library.API_VERSION,
                         self.define('OXP_API_VERSION'))
        self.assertEqual(node_options.UPLINKS_MAX,
                         self.define('OXP_UPLINKS_MAX'))

    def test_flags_are_those_of_the_library(self):
        for flags, enumeration in (
                (self.library.enum('oxp_node_flag'), types.NodeFlag),
                (self.library.enum('oxp_service_flag'), types.ServiceFlag)):
            self.assertEqual(
                flags, {flag.name: flag.value for flag in enumeration})

    def test_addresses_and_keys_come_back_as_they_were(self):
        for text in ('192.0.2.1', '2001:db8::1'):
            self.assertEqual(text, library.text_of(
                self.library.address(text)))
        for protocol, number in (('TCP', 6), ('UDP', 17), ('SCTP', 132)):
            key = types.Key('192.0.2.1', protocol, 80)
            out = self.library.key(key)
            self.assertEqual(number, out.protocol)
            self.assertEqual(key, library.key_of(out))
        self.assertRaises(library.DatapathError, self.library.key,
                          types.Key('192.0.2.1', 'DCCP', 80))

    def test_service_settings_come_back_as_they_were(self):
        wanted = types.Settings(
            slots=1009, flags=types.ServiceFlag.SOURCE,
            encapsulation=types.Encapsulation.SRV6, dscp=1,
            sid_function=2, source_length_v4=24, source_length_v6=56,
            idle_timeout_s=70, new_flow_rate=80, new_flow_burst=90,
            allowed=('192.0.2.0/28', '2001:db8::/32', '0.0.0.0/0'))
        out, _networks = self.library.settings(wanted)
        self.assertEqual(wanted._replace(allowed=None),
                         library.settings_of(out))
        self.assertEqual(list(wanted.allowed), [
            _network(out.allowed[i]) for i in range(out.allowed_count)])
        for everybody, count in ((None, 0), ((), 0)):
            out, _networks = self.library.settings(
                wanted._replace(allowed=everybody))
            self.assertEqual(count, out.allowed_count)
            self.assertEqual(everybody is None,
                             out.allowed == self.library.ffi.NULL)

    def test_uplinks_are_laid_out_as_the_library_reads_them(self):
        first, second = self.library.uplinks([
            types.Uplink(3, 1500, '02:00:00:00:00:01', '02:00:00:00:00:02'),
            types.Uplink(4, 9000, '02:00:00:00:00:03', None,
                          '02:00:00:00:00:04', (100, 7))])
        self.assertEqual((3, 1500, 0),
                         (first.ifindex, first.mtu, first.vlans))
        self.assertEqual(b'\2\0\0\0\0\2', bytes(first.next_hop_mac_v4))
        self.assertEqual(bytes(6), bytes(first.next_hop_mac_v6))
        self.assertEqual(bytes(6), bytes(second.next_hop_mac_v4))
        self.assertEqual((2, [100, 7]), (second.vlans, list(second.vlan)))

    def test_node_settings_are_laid_out_as_the_library_reads_them(self):
        out = self.library.node_settings(types.NodeSettings(
            '192.0.2.16', None, 4, 0,
            types.NodeFlag.ECHO | types.NodeFlag.FIB, 1000))
        self.assertEqual('192.0.2.16', library.text_of(out.source_v4))
        self.assertEqual(bytes(16), bytes(out.source_v6.bytes))
        self.assertEqual((4, 0, 9, 1000), (
            out.entropy_v4, out.entropy_v6, out.flags, out.icmp_rate))

    def test_members_are_laid_out_as_the_library_reads_them(self):
        out = self.library.members([
            types.Member('192.0.2.1', 256, 2 ** 63, False, True, 1400)])[0]
        self.assertEqual(
            (256, 2 ** 63, 0, 1, 1400),
            (out.weight, out.check, out.admin_up, out.backup, out.mtu))


def _network(out):
    """IPv4 networks have lengths of 32 bits."""
    return str(ipaddress.ip_network((library.text_of(out.address),
                                     out.length)))
