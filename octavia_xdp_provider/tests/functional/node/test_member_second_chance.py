# SPDX-License-Identifier: Apache-2.0
"""What a member does with packets that name another one, where the kernel has
a socket of the same ports: needs root. A test plays client and LB node."""

import ipaddress
import os
import socket

from scapy import packet as scapy_packet
from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.tests.functional.support import fabric

PORT = 80
OTHER = '10.2.0.2'
HAS_BTF = os.path.exists('/sys/kernel/btf/vmlinux')
FIRST = 1000  # the client's first sequence number
NEVER_SENT = 0x40000000  # added to what the member has sent


def named(inner):
    """A client's packet in GUE to the member, which names the other one."""
    family = 4 if inner[0] >> 4 == 4 else 41
    shim = (bytes((2, family, 0, 0, 0, 0, 0, 1)) +
            ipaddress.ip_address(OTHER).packed)
    header = inet.UDP(sport=0xc123, dport=6080, chksum=0,
                      len=8 + len(shim) + len(inner))
    return inet.IP(src=fabric.NODE, dst=fabric.OWN, ttl=64, flags='DF',
                   proto=17) / scapy_packet.Raw(bytes(header) + shim + inner)


class TestTimeWait(fabric.Fabric):
    """The member has closed a connection within the last minute."""

    def setUp(self):
        super().setUp()
        self.setup_member('--member', '10.2.0.0/24')
        # The kernel of the client's namespace knows of no connection: nobody
        # passes its resets on.
        self.end_relay()
        self.wire = self.packets(self.client, 'gw0')
        self.wire.settimeout(20)

    def say(self, version, flags, sequence, acknowledged=0):
        """The client's packet; returns its bytes."""
        ip = {4: inet.IP(src=fabric.CLIENT, dst=fabric.VIP),
              6: inet6.IPv6(src=fabric.CLIENT6, dst=fabric.VIP6)}[version]
        inner = bytes(ip / inet.TCP(
            sport=4000, dport=PORT, flags=flags, seq=sequence & 0xffffffff,
            ack=acknowledged & 0xffffffff))
        self.send(named(inner))
        return inner

    def heard(self, wanted):
        """The next packet of the member that is wanted."""
        mac = bytes.fromhex(fabric.MEMBER_MAC.replace(':', ''))
        while True:
            frame = self.wire.recv(65536)
            if frame[6:12] == mac and frame[12:14] in (b'\x08\x00',
                                                       b'\x86\xdd'):
                packet = fabric.parsed(frame[14:])
                if wanted(packet):
                    return packet

    def answer(self):
        packet = self.heard(lambda one: one.src in (fabric.VIP, fabric.VIP6)
                            and inet.TCP in one)
        return packet[inet.TCP]

    def assert_answered(self, flags, sequence, acknowledged):
        tcp = self.answer()
        self.assertEqual((flags, sequence & 0xffffffff, acknowledged),
                         (str(tcp.flags), tcp.seq, tcp.ack))

    def assert_handed_on(self, inner):
        packet = self.heard(lambda one: one.dst == OTHER)
        self.assertEqual(inner, bytes(packet[inet.UDP].payload))

    def closed(self, version):
        """Opens a connection, and closes it, the member first. Returns what
        the member has sent."""
        family, vip = fabric.FAMILIES[version]
        server = self.socket(self.member, family, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((vip, PORT))
        server.listen()
        self.say(version, 'S', FIRST)
        sent = self.answer().seq + 1
        self.say(version, 'A', FIRST + 1, sent)
        accepted, _ = server.accept()
        accepted.close()
        self.assert_answered('FA', sent, FIRST + 1)
        sent += 1
        self.say(version, 'FA', FIRST + 1, sent)
        self.assert_answered('A', sent, FIRST + 2)
        return sent

    def test_each_connection_gets_its_own_members_answer(self):
        for version in fabric.FAMILIES:
            with self.subTest(version=version):
                sent = self.closed(version)
                # The client uses the port again, for the other member.
                for flags in ('A', 'PA', 'FA'):
                    self.assert_handed_on(self.say(
                        version, flags, FIRST + 5000, sent + NEVER_SENT))
                # Its last FIN comes again: the acknowledgement was lost.
                again = self.say(version, 'FA', FIRST + 1, sent)
                if HAS_BTF:
                    self.assert_answered('A', sent, FIRST + 2)
                else:
                    self.assert_handed_on(again)
                # It begins a connection here (RFC 9293, 3.6.1).
                self.say(version, 'S', FIRST + 9000)
                tcp = self.answer()
                self.assertEqual(('SA', FIRST + 9001),
                                 (str(tcp.flags), tcp.ack))
