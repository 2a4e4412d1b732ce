# SPDX-License-Identifier: Apache-2.0
"""Frames against scapy, which builds and reads them independently."""

import dataclasses

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2
from scapy.layers import sctp

from octavia_xdp_provider.ctl import outer
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.ctl import quic
from octavia_xdp_provider.node.types import Encapsulation
from octavia_xdp_provider.node.types import Settings
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

    def test_checksums_and_lengths(self):
        for wanted in (V4, V6):
            for protocol in packet.NAMES:
                for length in (0, 100, 1001):
                    frame = packet.frame(dataclasses.replace(
                        wanted, protocol=protocol, length=length))
                    self.assertEqual(again(frame), frame,
                                     (wanted, protocol, length))
                    if length:
                        self.assertEqual(length + 14, len(frame))

    def test_fields(self):
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

    def test_fragments(self):
        for kind, more, offset in (('first', True, 0),
                                   ('later', False, 185)):
            seen = l2.Ether(packet.frame(dataclasses.replace(
                V4, fragment=kind)))[inet.IP]
            self.assertEqual((more, offset), (seen.flags.MF, seen.frag))
            seen = l2.Ether(packet.frame(dataclasses.replace(
                V6, fragment=kind)))[inet6.IPv6ExtHdrFragment]
            self.assertEqual((more, offset), (bool(seen.m), seen.offset))

    def test_refused(self):
        for more in ({'length': 39}, {'destination': '2001:db8::1'},
                     {'length': 65536}):
            self.assertRaises(packet.PacketError, packet.frame,
                              dataclasses.replace(V4, **more))


class TestParse(base.TestCase):

    def test_back(self):
        for wanted in (V4, V6):
            for vlans in ((), (5,), (5, 6)):
                seen = packet.parse(packet.frame(dataclasses.replace(
                    wanted, vlans=vlans, dscp=10, length=200)))
                self.assertEqual(
                    (wanted.source, wanted.destination, packet.TCP, vlans,
                     40, 200, None),
                    (seen.source, seen.destination, seen.protocol,
                     seen.vlans, seen.traffic_class, seen.length,
                     seen.wrong))
                self.assertEqual(b'\x9c\x40\0\x50',
                                 seen.part(seen.transport, 4))

    def test_fragments(self):
        for wanted in (V4, V6):
            for kind in ('first', 'later'):
                seen = packet.parse(packet.frame(dataclasses.replace(
                    wanted, fragment=kind)))
                self.assertEqual(
                    (kind == 'first', kind == 'later', packet.FRAGMENT_ID),
                    (seen.first, seen.later, seen.fragment_id))

    def test_extension_headers(self):
        options = inet6.IPv6ExtHdrDestOpt()
        head = (l2.Ether(dst='02:00:00:00:00:01')
                / inet6.IPv6(src=V6.source, dst=V6.destination))
        tail = inet.TCP(sport=1, dport=2)
        seen = packet.parse(bytes(
            head / inet6.IPv6ExtHdrHopByHop() / options / tail))
        self.assertEqual((packet.TCP, None), (seen.protocol, seen.wrong))
        self.assertEqual(b'\0\1\0\2', seen.part(seen.transport, 4))
        atomic = packet.parse(bytes(
            head / inet6.IPv6ExtHdrFragment() / tail))
        self.assertEqual((False, False, None),
                         (atomic.first, atomic.later, atomic.wrong))
        self.assertIn('segments left', packet.parse(bytes(
            head / inet6.IPv6ExtHdrRouting(segleft=1) / tail)).wrong)
        many = head
        for _count in range(7):
            many = many / inet6.IPv6ExtHdrDestOpt()
        self.assertIn('more than 6', packet.parse(bytes(many / tail)).wrong)

    def test_every_cut(self):
        """Whatever is missing, it is said and nothing fails."""
        for wanted in (V4, dataclasses.replace(V6, fragment='first')):
            frame = packet.frame(dataclasses.replace(wanted, vlans=(5,)))
            for length in range(len(frame)):
                seen = packet.parse(frame[:length])
                self.assertTrue(isinstance(seen, str) or seen.wrong, length)

    def test_martians(self):
        for source, martian in (
                ('0.1.2.3', True), ('127.0.0.1', True), ('224.0.0.1', True),
                ('255.255.255.255', True), ('192.0.2.1', True),
                ('192.0.2.2', False), ('223.255.255.255', False)):
            self.assertEqual(martian, packet.is_martian(source, '192.0.2.1'),
                             source)
        for source, martian in (
                ('::', True), ('::1', True), ('ff02::1', True),
                ('::ffff:192.0.2.1', True), ('2001:db8::1', True),
                ('2001:db8::2', False), ('::2', False)):
            self.assertEqual(martian,
                             packet.is_martian(source, '2001:db8::1'), source)


class TestOuter(base.TestCase):

    def test_kinds(self):
        inner = inet.IP(src=V4.source, dst=V4.destination) / inet.TCP()
        link = l2.Ether(src='02:00:00:00:00:01', dst='02:00:00:00:00:02')
        v4 = inet.IP(src='10.0.0.1', dst='10.1.0.1')
        v6 = inet6.IPv6(src='fd00::1', dst='fd00::2')
        for encapsulation, head, version in (
                (Encapsulation.IPIP, v4, 4), (Encapsulation.IPIP, v6, 6),
                (Encapsulation.SRV6, v6, 6),
                (Encapsulation.GRE, v4 / l2.GRE(), 4),
                (Encapsulation.GUE, v6 / inet.UDP(dport=6080), 6)):
            frame = bytes(link / head / inner)
            seen = outer.decode(frame, encapsulation)
            self.assertEqual(encapsulation, seen.encapsulation)
            self.assertEqual(version, seen.version)
            self.assertEqual(bytes(inner), frame[seen.inner:])
            self.assertEqual(seen.inner - 14, outer.overhead(
                encapsulation, version))
            self.assertEqual('02:00:00:00:00:02', seen.destination_mac)
        self.assertIsNone(outer.decode(
            bytes(link / v4 / inner), Encapsulation.GRE).encapsulation)

    def test_srv6_function(self):
        settings = Settings(encapsulation=Encapsulation.SRV6,
                            sid_function=0x1234)
        self.assertEqual('fd00::1234', outer.member_destination(
            'fd00::1', settings))
        self.assertEqual('fd00::1', outer.member_destination(
            'fd00::1', settings._replace(sid_function=0)))


class TestQuic(base.TestCase):

    def test_opens(self):
        initial = bytes.fromhex('c000000001')
        self.assertTrue(quic.opens(initial))
        self.assertFalse(quic.opens(initial[:4]))
        for other in ('c000000000', '4000000001', 'd000000001',
                      'c06b3343cf'):
            self.assertFalse(quic.opens(bytes.fromhex(other)), other)
        self.assertTrue(quic.opens(bytes.fromhex('d06b3343cf')))

    def test_server_id(self):
        self.assertEqual(0x01020304, quic.server_id(
            bytes.fromhex('40' '1f01020304')))
        self.assertEqual(0x01020304, quic.server_id(
            bytes.fromhex('c0000000010505' '01020304')))
        for none in ('40' '2f01020304', '00' '1f01020304', '401f010203',
                     'c000000001040501020304', ''):
            self.assertIsNone(quic.server_id(bytes.fromhex(none)), none)
