# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.tests.models.packet_model import quic
from octavia_xdp_provider.tests.unit import base


class TestQuic(base.TestCase):

    def test_only_initial_packets_open_a_connection(self):
        initial = bytes.fromhex('c000000001')
        self.assertTrue(quic.opens(initial))
        self.assertFalse(quic.opens(initial[:4]))
        for other in ('c000000000', '4000000001', 'd000000001',
                      'c06b3343cf'):
            self.assertFalse(quic.opens(bytes.fromhex(other)), other)
        self.assertTrue(quic.opens(bytes.fromhex('d06b3343cf')))

    def test_server_ids_are_in_connection_ids_of_ours(self):
        server = bytes.fromhex('01020304')
        for payload in ('40' '1f01020304', 'c0000000010505' '01020304'):
            self.assertEqual(server,
                             quic.find_server(bytes.fromhex(payload)))
        for none in ('40' '2f01020304', '00' '1f01020304', '401f010203',
                     'c000000001040501020304', ''):
            self.assertIsNone(quic.find_server(bytes.fromhex(none)), none)
