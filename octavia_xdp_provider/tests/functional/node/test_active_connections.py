# SPDX-License-Identifier: Apache-2.0
"""Active flows of a service, by TCP connections through the forwarding
program to a member: needs root."""

import socket
import struct
import threading

from scapy.layers import inet

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import private_node

LISTENER = datapath.Key(fabric.VIP, 'TCP', 80)
IDLE_S = 10
# With the outer header what the fabric's links take.
LINK_MTU = 1520
ETHERNET = 14
TCP_FLAGS, TCP_RST = ETHERNET + 20 + 13, 4
RESET = struct.pack('ii', 1, 0)  # SO_LINGER of nothing


class TestActiveConnections(fabric.Fabric, private_node.PrivateState):

    def setUp(self):
        self.cut, self.lost = False, threading.Event()
        self.datapath = None
        super().setUp()
        self.setup_member()
        opened = self.open()
        self.addCleanup(self.end_relay)  # before the datapath closes
        opened.set_uplinks([datapath.Uplink(
            socket.if_nametoindex('lo'), LINK_MTU, private_node.OWN_MAC,
            private_node.NEXT_HOP_MAC)])
        opened.set_node(datapath.NodeSettings(fabric.NODE))
        opened.set_service(
            LISTENER, [datapath.Member(fabric.OWN)], datapath.Settings(
                slots=private_node.SLOTS, idle_timeout_s=IDLE_S))
        opened.tick()
        opened.tests  # noqa: B018 (opened before the relay's thread does)
        self.datapath = opened
        self.server = super().socket(self.member, socket.AF_INET,
                                     socket.SOCK_STREAM)
        self.server.bind((fabric.VIP, LISTENER.port))
        self.server.listen(100)

    def socket(self, *arguments):
        return fabric.Fabric.socket(self, *arguments)

    def through_node(self, frame):
        if self.cut and frame[TCP_FLAGS] & TCP_RST:
            # The node does not see it, and nobody gets it.
            self.lost.set()
            return inet.IP(src=fabric.NODE, dst='10.1.0.200')
        action, sent = self.datapath.run([(frame, 0)])[0]
        if action != private_node.XDP_TX:
            raise AssertionError(action)
        return inet.IP(sent[ETHERNET:])

    def connect(self, count):
        """Client's and member's sockets of connections."""
        pairs = []
        for _ in range(count):
            client = self.socket(self.client, socket.AF_INET,
                                 socket.SOCK_STREAM)
            client.connect((fabric.VIP, LISTENER.port))
            accepted, _ = self.server.accept()
            accepted.settimeout(20)
            self.addCleanup(accepted.close)
            pairs.append((client, accepted))
        return pairs

    def wait_active(self, count, meanwhile=lambda: None):
        def there():
            meanwhile()
            return self.datapath.service(LISTENER).active == count
        self.wait(f'{count} active flows', there)

    def test_the_figure_follows_connections_as_far_as_the_node_sees(self):
        pairs = self.connect(20)
        self.wait_active(20)
        # 5 that clients close first
        for client, accepted in pairs[:5]:
            client.close()
            self.assertEqual(b'', accepted.recv(1))
            accepted.close()
        self.wait_active(15)
        # 5 that the member closes first
        for client, accepted in pairs[5:10]:
            accepted.close()
            self.assertEqual(b'', client.recv(1))
            client.close()
        self.wait_active(10)
        # One that the member resets, and one whose client vanishes: a node
        # sees nothing of either, but that they are silent.
        pairs[10][1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        pairs[10][1].close()
        with self.assertRaises(ConnectionResetError):
            pairs[10][0].recv(1)
        self.cut = True
        pairs[11][0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        pairs[11][0].close()
        self.assertTrue(self.lost.wait(self.SOON))
        self.cut = False
        self.assertEqual(10, self.datapath.service(LISTENER).active)

        def talk():
            for client, accepted in pairs[12:]:
                client.sendall(b'x')
                self.assertEqual(b'x', accepted.recv(1))
        self.wait_active(8, talk)
        # Whoever comes again is new.
        more = self.connect(3)
        self.wait_active(11, talk)
        for client, _ in more:
            client.close()
        self.wait_active(8, talk)
        self.assertEqual(
            {LISTENER: 8}, {key: one.active for key, one
                            in self.datapath.summaries().items()})
