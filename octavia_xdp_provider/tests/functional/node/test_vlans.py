# SPDX-License-Identifier: Apache-2.0
"""Uplinks that are VLAN interfaces, with the kernel's 802.1Q devices at both
ends. Where the kernel has none these tests are skipped.
"""

import itertools
import struct

from lab import namespaces
from lab import paths
from octavia_xdp_provider.tests.functional.support import frames
from octavia_xdp_provider.tests.functional.support import routed
from octavia_xdp_provider.tests.functional.support import wires

NODE = routed.NODE
R1, R2 = routed.ROUTERS
MEMBER, MEMBER_V6 = '198.18.10.11', '2001:db8:10::11'
SOURCE, SOURCE_V6 = '198.51.110.2', '2001:db8:a::2'
INNER, OUTER, OTHER = 100, 200, 300  # ids


def tag(number, protocol=0x8100):
    return struct.pack('!HH', protocol, number)


class TestVlans(wires.Wires):
    """eth1 carries 100 tagged once, and 300 within 200."""

    def setUp(self):
        super().setUp()
        try:
            self.add(NODE, 'eth1', 'one', INNER)
        except paths.LabError as error:
            if 'Unknown device type' not in str(error):
                raise
            self.skipTest('the kernel has no 802.1Q devices')
        self.add(R1, 'node', 'one', INNER)
        for host, below in ((NODE, 'eth1'), (R1, 'node')):
            self.add(host, below, 'outer', OUTER, '802.1ad')
            self.add(host, 'outer', 'two', OTHER)
            suffix = 2 if host == NODE else 1
            for link, number in (('one', 110), ('two', 120)):
                namespaces.address(self.lab, host, link,
                                   f'198.51.{number}.{suffix}/24')
                namespaces.address(
                    self.lab, host, link,
                    f'2001:db8:{"a" if link == "one" else "b"}::{suffix}/64')
            # So that XDP and the raw socket see tags within the frames.
            self.command(host, 'ethtool', '-K', below, 'rxvlan', 'off',
                         'txvlan', 'off')
        for version in ('-4', '-6'):
            self.ip(NODE, version, 'route', 'flush', 'default')
        for link, v4, v6 in (('one', '198.51.110.1', '2001:db8:a::1'),
                             ('two', '198.51.120.1', '2001:db8:b::1')):
            for gateway in (v4, v6):
                self.ip(NODE, 'route', 'add', 'default', 'via', gateway,
                        'dev', link, 'metric', '1' if link == 'one' else '2')
        self.serve(1, MEMBER)
        self.serve(1, MEMBER_V6, vip=frames.VIP_V6)

    def add(self, host, below, name, number, protocol='802.1Q'):
        self.ip(host, 'link', 'add', 'link', below, 'name', name, 'type',
                'vlan', 'protocol', protocol, 'id', str(number))
        self.ip(host, 'link', 'set', name, 'up')

    def routes_by(self, *names):
        self.start(f'uplinks = {", ".join(names)}\n')
        self.wait_next_hops(*itertools.product(names, (4, 6)))

    def assert_leaves(self, tags, make, source, member, came=b''):
        """To the router behind these tags, whichever the packet came with."""
        packet = make(1024, 1, b'question')
        self.wires[R1].send(packet, came)
        host, frame = self.receive(lambda frame: frame.endswith(packet))
        wire = self.wires[R1]
        self.assertEqual(R1, host)
        self.assertEqual(wire.mac + wire.node + tags, frame[:12 + len(tags)])
        self.assertEqual(frames.ethertype(packet),
                         frame[12 + len(tags):14 + len(tags)])
        self.assertEqual((source, member), frames.addresses(
            frame[14 + len(tags):]))

    def assert_both_leave(self, tags, came=b'', sources=(SOURCE, SOURCE_V6)):
        self.assert_leaves(tags, frames.udp_v4, sources[0], MEMBER, came)
        self.assert_leaves(tags, frames.udp_v6, sources[1], MEMBER_V6, came)

    def test_packets_leave_with_the_tag_of_their_route(self):
        self.routes_by('one')
        self.assertIn('prog/xdp', self.ip(NODE, 'link', 'show', 'eth1'))
        for came in (tag(INNER), b'', tag(OUTER, 0x88a8) + tag(OTHER)):
            self.assert_both_leave(tag(INNER), came)

    def test_packets_leave_with_both_tags_of_their_route(self):
        self.routes_by('two')
        tags = tag(OUTER, 0x88a8) + tag(OTHER)
        for came in (tags, b'', tag(INNER)):
            self.assert_both_leave(tags, came,
                                   ('198.51.120.2', '2001:db8:b::2'))

    def test_what_is_not_ours_reaches_the_kernel(self):
        """Through its VLAN device, also while the program runs below."""
        self.routes_by('one')
        self.command(R1, 'ping', '-c', '1', '-W', '10', '198.51.110.2')
        self.command(R1, 'ping', '-c', '1', '-W', '10', '198.51.120.2')
        self.command(R1, 'ping', '-c', '1', '-W', '10', '198.51.101.2')

    def test_echo_and_errors_keep_the_tags(self):
        self.routes_by('one')
        packet = frames.udp_v4(1024, 1, bytes(1500 - 28))
        self.wires[R1].send(packet, tag(OTHER))
        _, frame = self.receive(
            lambda frame: frame[16:18] == b'\x08\x00' and frame[27] == 1)
        self.assertEqual(tag(OTHER), frame[12:16])
        self.assertEqual(1500 - 20, struct.unpack('!I', frame[42:46])[0])
