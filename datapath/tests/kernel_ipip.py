#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test a member at which the kernel's tunnel, tunl0, decapsulates packets.

Sends IPIP packets with a client's packet inside, like an LB node. Two
namespaces represent the fabric and the member, which is set up as described
in doc/source/install/members.rst. Needs root and the module ipip.
"""

import pathlib
import select
import socket
import struct
import subprocess
import time
import unittest

from kernel_support import CLIENT
from kernel_support import CLIENT_PORT
from kernel_support import ETH_P_IP
from kernel_support import ip
from kernel_support import ipv4
from kernel_support import Namespace
from kernel_support import PORT
from kernel_support import tcp
from kernel_support import udp
from kernel_support import VIP

SYSCTLS = (pathlib.Path(__file__).resolve().parents[2] /
           'deploy/sysctl.d/60-octavia-xdp-member.conf')
NODE = '198.18.10.1'
MEMBER = '198.18.10.2'
SEQUENCE = 1000
PATIENCE_S = 30  # only a failing test waits that long
SYN, ACK, SYN_ACK = 0x02, 0x10, 0x12


class KernelTunnel(unittest.TestCase):

    def setUp(self):
        subprocess.run(['modprobe', 'ipip'], check=True)
        self.fabric = self.namespace('fabric')
        self.member = self.namespace('member')
        ip('link', 'add', 'eth0', 'netns', self.fabric.name, 'type', 'veth',
           'peer', 'name', 'eth0', 'netns', self.member.name)
        for side, address in (self.fabric, NODE), (self.member, MEMBER):
            side.ip('address', 'add', f'{address}/24', 'dev', 'eth0')
            side.ip('link', 'set', 'lo', 'up')
            side.ip('link', 'set', 'eth0', 'up')
        self.member.ip('route', 'add', 'default', 'via', NODE)
        for line in SYSCTLS.read_text().splitlines():
            name, equals, value = line.partition('=')
            if equals and not line.startswith('#'):
                self.member.sysctl(name.strip(), value.strip())
        self.member.ip('address', 'add', f'{VIP}/32', 'dev', 'lo')
        self.member.ip('link', 'set', 'tunl0', 'up')
        self.wire = self.fabric.socket(socket.AF_PACKET, socket.SOCK_RAW,
                                       socket.htons(ETH_P_IP))
        self.addCleanup(self.wire.close)
        self.wire.bind(('eth0', ETH_P_IP))
        self.header = (self.member.mac('eth0') + self.fabric.mac('eth0') +
                       struct.pack('!H', ETH_P_IP))

    def namespace(self, role):
        namespace = Namespace(role)
        self.addCleanup(namespace.delete)
        return namespace

    def give_tunnel_an_address(self):
        self.member.ip('address', 'add', f'{MEMBER}/32', 'dev', 'tunl0')

    def server(self, kind):
        listener = self.member.socket(socket.AF_INET, kind)
        self.addCleanup(listener.close)
        listener.settimeout(PATIENCE_S)
        listener.bind((VIP, PORT))
        return listener

    def send(self, inner):
        """Send a client's packet like an LB node."""
        self.wire.send(self.header +
                       ipv4(NODE, MEMBER, socket.IPPROTO_IPIP, inner))

    def answer(self, protocol):
        """Return the payload of the member's answer, which is not in IPIP."""
        end = time.monotonic() + PATIENCE_S
        while True:
            wait = end - time.monotonic()
            if wait <= 0 or not select.select([self.wire], [], [], wait)[0]:
                self.fail('no answer of the VIP to the client')
            frame, origin = self.wire.recvfrom(65535)
            if origin[2] == socket.PACKET_OUTGOING:
                continue
            packet = frame[14:]
            self.assertNotEqual(socket.IPPROTO_IPIP, packet[9])
            if (packet[9] == protocol and
                    packet[12:16] == socket.inet_aton(VIP) and
                    packet[16:20] == socket.inet_aton(CLIENT)):
                return packet[(packet[0] & 15) * 4:]

    def test_udp_leaves_the_tunnel_and_is_answered(self):
        self.give_tunnel_an_address()
        server = self.server(socket.SOCK_DGRAM)
        self.send(udp(b'question'))
        data, peer = server.recvfrom(100)
        self.assertEqual((b'question', (CLIENT, CLIENT_PORT)), (data, peer))
        server.sendto(b'answer', peer)
        segment = self.answer(socket.IPPROTO_UDP)
        self.assertEqual((PORT, CLIENT_PORT),
                         struct.unpack('!HH', segment[:4]))
        self.assertEqual(b'answer', segment[8:8 + len(b'answer')])

    def test_tcp_connection_opens_through_the_tunnel(self):
        self.give_tunnel_an_address()
        server = self.server(socket.SOCK_STREAM)
        server.listen()
        self.send(tcp(SYN, SEQUENCE))
        ports, sequence, acknowledge, flags = struct.unpack(
            '!IIIxB', self.answer(socket.IPPROTO_TCP)[:14])
        self.assertEqual((PORT << 16 | CLIENT_PORT, SEQUENCE + 1, SYN_ACK),
                         (ports, acknowledge, flags))
        self.send(tcp(ACK, SEQUENCE + 1, sequence + 1, b'question'))
        connection, peer = server.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            self.assertEqual((CLIENT, CLIENT_PORT), peer)
            self.assertEqual(b'question', connection.recv(100))

    def test_tunnel_without_address_drops(self):
        # This is why the guide gives tunl0 an address: without one, loose
        # reverse path filtering behaves like strict filtering.
        before = self.member.counter('IPReversePathFilter')
        server = self.server(socket.SOCK_DGRAM)
        self.send(udp(b'question'))
        end = time.monotonic() + PATIENCE_S
        while self.member.counter('IPReversePathFilter') == before:
            self.assertLess(time.monotonic(), end, 'not dropped')
            time.sleep(0.01)
        server.setblocking(False)
        self.assertRaises(BlockingIOError, server.recv, 100)


if __name__ == '__main__':
    unittest.main(verbosity=2)
