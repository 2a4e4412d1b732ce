# SPDX-License-Identifier: Apache-2.0
"""Headers as the packet model reads them, against scapy's."""

import ipaddress

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from octavia_xdp_provider.tests.models.packet_model import allow
from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.unit import base

MAC = '02:00:00:00:00:01'
CLIENT, VIP = '198.51.100.7', '203.0.113.10'
CLIENT_V6, VIP_V6 = '2001:db8::7', '2001:db8:1::1'
TCP = inet.TCP(sport=40000, dport=80)


def packed(text):
    return ipaddress.ip_address(text).packed


def frame(packet, *vlans):
    link = l2.Ether(dst=MAC)
    for vlan in vlans:
        link /= l2.Dot1Q(vlan=vlan)
    return bytes(link / packet)


def v4(**fields):
    return inet.IP(**{'src': CLIENT, 'dst': VIP, **fields})


def v6(**fields):
    return inet6.IPv6(**{'src': CLIENT_V6, 'dst': VIP_V6, **fields})


class TestParse(base.TestCase):

    def test_addresses_ports_and_lengths_are_found(self):
        for packet, source, destination in (
                (v4() / TCP, CLIENT, VIP), (v6() / TCP, CLIENT_V6, VIP_V6)):
            for vlans in ((), (5,), (5, 6)):
                seen = parse.parse(frame(packet, *vlans) + b'padding')
                self.assertEqual(
                    (packed(source), packed(destination), state.TCP,
                     len(packet), 4 * len(vlans) + 14, None),
                    (seen.source, seen.destination, seen.protocol,
                     seen.end - seen.network, seen.network, seen.wrong))
                self.assertEqual(
                    b'\x9c\x40\0\x50',
                    seen.frame[seen.transport:seen.transport + 4])

    def test_first_and_later_fragments_differ(self):
        for more, offset in ((True, 0), (False, 185), (True, 185)):
            for packet, name in (
                    (v4(id=7, flags=int(more), frag=offset) / TCP,
                     b'\0\7'),
                    (v6() / inet6.IPv6ExtHdrFragment(
                        m=int(more), offset=offset, id=7) / TCP,
                     b'\0\0\0\7')):
                seen = parse.parse(frame(packet))
                self.assertEqual(
                    (not offset, bool(offset), name, state.TCP, None),
                    (seen.first, seen.later, seen.fragment_id,
                     seen.fragment_protocol, seen.wrong))

    def test_extension_headers_are_walked(self):
        options = inet6.IPv6ExtHdrDestOpt()
        seen = parse.parse(frame(
            v6() / inet6.IPv6ExtHdrHopByHop() / options / TCP))
        self.assertEqual((state.TCP, None), (seen.protocol, seen.wrong))
        self.assertEqual(b'\x9c\x40\0\x50',
                         seen.frame[seen.transport:seen.transport + 4])

    def test_atomic_fragment_counts_as_whole_packet(self):
        seen = parse.parse(frame(v6() / inet6.IPv6ExtHdrFragment() / TCP))
        self.assertEqual((False, False, None),
                         (seen.first, seen.later, seen.wrong))

    def test_faults_of_extension_headers_are_named(self):
        many = v6()
        for _count in range(7):
            many = many / inet6.IPv6ExtHdrDestOpt()
        for packet, why in (
                (v6() / inet6.IPv6ExtHdrRouting(segleft=1) / TCP,
                 'segments left'),
                (v6() / inet6.IPv6ExtHdrFragment(m=1)
                 / inet6.IPv6ExtHdrFragment(m=1) / TCP,
                 'two fragment headers'),
                (many / TCP, 'more than 6')):
            self.assertIn(why, parse.parse(frame(packet)).wrong)

    def test_each_cut_is_said_and_nothing_fails(self):
        fragment = v6() / inet6.IPv6ExtHdrFragment(m=1) / TCP
        for packet in (v4() / TCP, v6() / TCP, fragment):
            whole = frame(packet, 5)
            for length in range(len(whole)):
                seen = parse.parse(whole[:length])
                self.assertTrue(isinstance(seen, parse.Ignored)
                                or seen.wrong, length)

    def test_frames_to_groups_and_of_others_are_ignored(self):
        whole = frame(v4() / TCP)
        for other, why in (
                (b'\xff' * 6 + whole[6:], 'to the group ff:ff'),
                (whole[:12] + b'\x08\x06' + whole[14:], '0x0806'),
                (whole[:14] + b'\x65' + whole[15:], 'version 6')):
            seen = parse.parse(other)
            self.assertIsInstance(seen, parse.Ignored)
            self.assertIn(why, seen)


class TestMartians(base.TestCase):

    def check(self, vip, *sources):
        for source, martian in sources:
            self.assertEqual(martian, allow.martian(packed(source),
                                                    packed(vip)), source)

    def test_sources_that_no_ipv4_client_has(self):
        self.check(
            '192.0.2.1', ('0.1.2.3', True), ('127.0.0.1', True),
            ('224.0.0.1', True), ('255.255.255.255', True),
            ('192.0.2.1', True), ('192.0.2.2', False),
            ('223.255.255.255', False))

    def test_sources_that_no_ipv6_client_has(self):
        self.check(
            '2001:db8::1', ('::', True), ('::1', True), ('ff02::1', True),
            ('::ffff:192.0.2.1', True), ('2001:db8::1', True),
            ('2001:db8::2', False), ('::2', False))
