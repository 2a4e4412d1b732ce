# SPDX-License-Identifier: Apache-2.0
"""Frames in words, whole and cut short."""

import struct

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2
from scapy.packet import Raw

from octavia_xdp_provider.hostctl import describe
from octavia_xdp_provider.tests.unit import base

INNER = inet.IP(src='198.51.100.7', dst='203.0.113.10') / inet.TCP(
    sport=40000, dport=80, flags='SA')
WORDS = 'tcp 198.51.100.7:40000 > 203.0.113.10:80 [SA]'


class TestDescribe(base.TestCase):

    def check(self, words, packet):
        data = bytes(l2.Ether(src='02:00:00:00:00:01',
                              dst='02:00:00:00:00:02') / packet)
        self.assertEqual(words, describe.frame(data))
        for length in range(len(data)):
            self.assertTrue(describe.frame(data[:length]))

    def test_addresses_and_ports_are_shown_of_each_protocol(self):
        self.check(WORDS, INNER)
        self.check('udp [2001:db8::1]:1 > [2001:db8::2]:2',
                   inet6.IPv6(src='2001:db8::1', dst='2001:db8::2')
                   / inet.UDP(sport=1, dport=2))
        self.check('icmp 10.0.0.1 > 10.0.0.2',
                   inet.IP(src='10.0.0.1', dst='10.0.0.2') / inet.ICMP())
        self.check('tcp 10.0.0.1 > 10.0.0.2, a later fragment',
                   inet.IP(src='10.0.0.1', dst='10.0.0.2', frag=9, proto=6))

    def test_tunneled_packet_is_recognized(self):
        shim = struct.pack('!HHI', 0, 0x0800, 5 << 8)
        self.check(
            f'udp 10.0.0.1:7 > 10.0.0.2:6081, Geneve 5, in it {WORDS}',
            inet.IP(src='10.0.0.1', dst='10.0.0.2')
            / inet.UDP(sport=7, dport=6081) / Raw(shim + bytes(INNER)))
        self.check(f'2001:db8::1 > 2001:db8::5, in it {WORDS}',
                   inet6.IPv6(src='2001:db8::1', dst='2001:db8::5', nh=4)
                   / Raw(bytes(INNER)))

    def test_other_frames_are_shown_by_their_ethertype(self):
        self.check('EtherType 0x0806', l2.ARP())
