# SPDX-License-Identifier: Apache-2.0
"""The example of the user guide does what it says."""

import ipaddress
import pathlib
import re
import runpy

import google_crc32c

import octavia_xdp_provider
from octavia_xdp_provider.tests.models.packet_model import quic as packet_model
from octavia_xdp_provider.tests.unit import base

USER = (pathlib.Path(octavia_xdp_provider.__file__).parents[1]
        / 'doc/source/user')


class TestQuicDocument(base.TestCase):

    def setUp(self):
        super().setUp()
        self.example = runpy.run_path(str(USER / 'quic_connection_id.py'))

    def test_server_ids_are_crc32c_of_the_mapped_address(self):
        for text, packed in (
                ('198.18.10.11', ipaddress.ip_address(
                    '::ffff:198.18.10.11').packed),
                ('2001:db8::11', ipaddress.ip_address(
                    '2001:db8::11').packed)):
            self.assertEqual(google_crc32c.value(packed).to_bytes(4, 'big'),
                             self.example['server_id'](text))

    def test_port_follows_the_address(self):
        self.assertEqual(
            packet_model.server_id(
                ipaddress.ip_address('198.18.10.11').packed, 8081),
            self.example['server_id']('198.18.10.11', 8081))

    def test_table_has_the_documented_values(self):
        rows = re.findall(r'^(\S+) +``([0-9a-f]{8})``$',
                          (USER / 'quic.rst').read_text(), re.MULTILINE)
        self.assertEqual(2, len(rows))
        for address, expected in rows:
            self.assertEqual(expected,
                             self.example['server_id'](address).hex())

    def test_connection_ids_carry_rotation_length_and_server_id(self):
        for length in (9, 12, 20):
            made = self.example['connection_id']('198.18.10.11', length)
            self.assertEqual(length, len(made))
            self.assertEqual(0, made[0] >> 5)
            self.assertEqual(length - 1, made[0] & 0x1f)
            self.assertEqual(self.example['server_id']('198.18.10.11'),
                             made[1:5])
