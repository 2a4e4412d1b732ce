# SPDX-License-Identifier: Apache-2.0
"""Frames against scapy, which builds and reads them independently."""

import dataclasses

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2
from scapy.layers import sctp

from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.tests.unit import base

V4 = packet.Wanted('tcp', '198.51.100.7', '203.0.113.10', 40000, 80)
V6 = packet.Wanted('tcp', '2001:db8::7', '2001:db8:1::1', 40000, 80)


def again(frame):
    """The same frame as scapy makes it, with checksums of its own."""
    seen = l2.Ether(frame)
    for layer in (inet.IP, inet.TCP, inet.UDP, inet.ICMP,
                  inet6.ICMPv6EchoRequest):
        if layer in seen:
            field = 'cksum' if layer is inet6.ICMPv6EchoRequest else 'chksum'
            delattr(seen[layer], field)
    return bytes(seen)


class TestFrame(base.TestCase):

    def test_checksums_and_lengths_are_those_of_scapy(self):
        for wanted in (V4, V6):
            for protocol in packet.NAMES:
                for length in (0, 100, 1001):
                    frame = packet.frame(dataclasses.replace(
                        wanted, protocol=protocol, length=length))
                    self.assertEqual(again(frame), frame,
                                     (wanted, protocol, length))
                    if length:
                        self.assertEqual(length + 14, len(frame))

    def test_flags_tags_and_classes_are_in_the_frame(self):
        seen = l2.Ether(packet.frame(dataclasses.replace(
            V4, syn=True, dscp=46, vlans=(5, 6))))
        self.assertEqual([5, 6], [seen[l2.Dot1AD].vlan,
                                  seen[l2.Dot1Q].vlan])
        self.assertEqual((46 << 2, 'DF', 'S', 40000, 80), (
            seen[inet.IP].tos, seen[inet.IP].flags, seen[inet.TCP].flags,
            seen[inet.TCP].sport, seen[inet.TCP].dport))
        seen = l2.Ether(packet.frame(dataclasses.replace(
            V6, dscp=46, protocol='udp', payload=b'abc')))
        self.assertEqual((46 << 2, b'abc'), (
            seen[inet6.IPv6].tc, bytes(seen[inet.UDP].payload)))
        seen = l2.Ether(packet.frame(dataclasses.replace(
            V4, protocol='sctp', syn=True, may_fragment=True)))
        self.assertEqual((132, 0), (seen[inet.IP].proto, seen[inet.IP].flags))
        self.assertIn(sctp.SCTPChunkInit, seen)

    def test_fragments_have_their_offsets(self):
        for kind, more, offset in (('first', True, 0),
                                   ('later', False, 185)):
            seen = l2.Ether(packet.frame(dataclasses.replace(
                V4, fragment=kind)))[inet.IP]
            self.assertEqual((more, offset), (seen.flags.MF, seen.frag))
            seen = l2.Ether(packet.frame(dataclasses.replace(
                V6, fragment=kind)))[inet6.IPv6ExtHdrFragment]
            self.assertEqual((more, offset), (bool(seen.m), seen.offset))

    def test_impossible_packets_are_refused(self):
        for more in ({'length': 39}, {'destination': '2001:db8::1'},
                     {'length': 65536}):
            self.assertRaises(packet.PacketError, packet.frame,
                              dataclasses.replace(V4, **more))
