# SPDX-License-Identifier: Apache-2.0
"""Drops of services, by packets that really came in: needs root."""

import collections
import socket
import struct

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import frames
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support.private_node import DNS
from octavia_xdp_provider.tests.functional.support.private_node import NODE
from octavia_xdp_provider.tests.functional.support.private_node import VIP

SYSLOG = datapath.Key(VIP, 'UDP', 514)
MEMBER = '10.1.0.1'
INSIDE, OUTSIDE, MARTIAN = '198.51.100.7', '192.0.2.99', '127.0.0.1'
LONG = 1481  # bytes that do not fit 1,500 with the outer header
EACH = 30


class TestServiceDrops(private_node.TwoNamespaces):

    def setUp(self):
        super().setUp()
        self.uplink = self.prepare_uplink()
        self.datapath = self.open()
        with self.inside(self.node):
            self.datapath.set_uplinks([self.uplink])
            self.datapath.set_node(datapath.NodeSettings(NODE))
            self.datapath.attach(self.uplink.ifindex)
        self.datapath.set_service(
            DNS, [datapath.Member(MEMBER)], datapath.Settings(
                slots=private_node.SLOTS, allowed=('198.51.100.0/24',
                                                   '127.0.0.0/8')))
        self.datapath.set_service(
            SYSLOG, [], datapath.Settings(slots=private_node.SLOTS))
        self.peer_socket = self.socket()
        self.ethernet = bytes.fromhex((
            private_node.OWN_MAC + private_node.NEXT_HOP_MAC
            ).replace(':', '')) + b'\x08\x00'

    def send(self, *packet):
        self.peer_socket.send(self.ethernet + frames.udp_packet(*packet))

    def forwarded(self, port):
        """Packets that come back until the one from this port does."""
        count = 0
        while True:
            frame = self.peer_socket.recv(2048)
            outer = frame[14:]
            if outer[9] != socket.IPPROTO_IPIP:
                continue
            count += 1
            if struct.unpack_from('!H', outer, 40)[0] == port:
                return count

    def test_what_did_not_come_out_is_counted_for_its_service(self):
        """All that is sent to a service either comes back to the router or
        is a drop of that service."""
        sent = collections.Counter()
        for number in range(EACH):
            for source, listener, size in (
                    (INSIDE, 53, 8), (OUTSIDE, 53, 8), (MARTIAN, 53, 8),
                    (INSIDE, 53, LONG - 28), (INSIDE, 514, 8),
                    (VIP, 514, 8), (INSIDE, 54, 8)):
                self.send(source, VIP, 1024 + number, listener, bytes(size))
                sent[listener] += 1
        # One after the other through one queue: the last one is the end.
        self.send(INSIDE, VIP, 9, 53, b'last')
        sent[53] += 1
        arrived = self.forwarded(9)
        self.assertEqual(EACH + 1, arrived)
        services = {one.key: one for one in self.datapath.services()}
        self.assertEqual(sent[53] - arrived, services[DNS].drops)
        self.assertEqual(arrived, services[DNS].counters.packets)
        self.assertEqual(sent[514], services[SYSLOG].drops)
        self.assertEqual(0, services[SYSLOG].counters.packets)
        summaries = self.datapath.summaries()
        self.assertEqual(
            {DNS: 3 * EACH, SYSLOG: 2 * EACH},
            {key: one.drops for key, one in summaries.items()})
        self.assertEqual(
            {DNS: arrived, SYSLOG: 0},
            {key: one.packets for key, one in summaries.items()})
        # By reason the node counts the same packets.
        self.assertEqual(5 * EACH, sum(
            counted.packets
            for outcome, counted in self.datapath.outcomes().items()
            if outcome.name.startswith('DROP_')))

    def test_a_library_that_opens_again_finds_them(self):
        self.send(INSIDE, VIP, 1024, 514, b'')
        self.send(INSIDE, VIP, 9, 53, b'last')
        self.forwarded(9)
        self.datapath.close()
        self.assertEqual(1, self.open(create=False).service(SYSLOG).drops)
