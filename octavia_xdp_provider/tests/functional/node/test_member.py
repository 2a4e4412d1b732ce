# SPDX-License-Identifier: Apache-2.0
"""The member's programs under real sockets: needs root."""

import contextlib
import socket
import threading

from scapy.layers import inet
from scapy.layers import inet6

from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.support import form

LISTENER, LOCAL = 80, 8080
PORTS = ('--port', f'{fabric.VIP}:{LISTENER}/tcp={LOCAL}',
         '--port', f'[{fabric.VIP6}]:{LISTENER}/tcp={LOCAL}',
         '--port', f'{fabric.VIP}:{LISTENER}/udp={LOCAL}',
         '--port', f'[{fabric.VIP6}]:{LISTENER}/udp={LOCAL}')


class Servers(fabric.Fabric):
    """TCP and UDP servers on the VIPs' local ports."""

    def tcp_pair(self, version):
        """Client's and server's socket of one connection to the listener."""
        family, vip = fabric.FAMILIES[version]
        server = self.socket(self.member, family, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((vip, LOCAL))
        server.listen()
        client = self.socket(self.client, family, socket.SOCK_STREAM)
        client.connect((vip, LISTENER))
        accepted, _ = server.accept()
        accepted.settimeout(20)
        self.addCleanup(accepted.close)
        server.close()
        return client, accepted

    def ask(self, client, server):
        """A datagram, again and again: kernels may drop it while they look
        for neighbours. Returns where it is from."""
        server.settimeout(1)
        for _ in range(30):
            client.send(b'question')
            with contextlib.suppress(TimeoutError):
                data, peer = server.recvfrom(100)
                self.assertEqual(b'question', data)
                return peer
        self.fail('no question arrives')

    def send_bulk(self, sender, receiver, amount):
        data = bytes(range(256)) * 4096
        received = bytearray()

        def send():
            for start in range(0, amount, len(data)):
                sender.sendall(data[:amount - start])
            sender.shutdown(socket.SHUT_WR)
        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        while chunk := receiver.recv(1 << 20):
            received += chunk
        thread.join()
        self.assertEqual(amount, len(received))
        self.assertEqual(data[:4096], received[:4096])
        self.assertEqual((data * (amount // len(data) + 1))[:amount],
                         bytes(received))


class TestSegmentRouting(Servers):

    to_sid = True

    def route(self):
        for action, where, sid in (
                ('End.DX4', ('nh4', '0.0.0.0'), fabric.SID4),
                # End.DX6 drops what is for the host itself
                ('End.DT6', ('table', 'local'), fabric.SID6)):
            fabric.command('ip', '-n', self.member, '-6', 'route', 'add', sid,
                           'encap', 'seg6local', 'action', action, *where,
                           'dev', 'eth0')

    def test_sids_end_at_the_kernels_own_end_dx(self):
        # IPv6 without "nodad" can be bound to only some time later.
        for vip in ([fabric.VIP], [fabric.VIP6, 'nodad']):
            fabric.command('ip', '-n', self.member, 'address', 'add', *vip,
                           'dev', 'lo')
        self.route()
        for version, (family, vip) in fabric.FAMILIES.items():
            with self.subTest(version=version):
                server = self.socket(self.member, family, socket.SOCK_DGRAM)
                server.bind((vip, LISTENER))
                client = self.socket(self.client, family, socket.SOCK_DGRAM)
                client.connect((vip, LISTENER))
                peer = self.ask(client, server)
                server.sendto(b'answer', peer)
                self.assertEqual(b'answer', client.recv(100))


class TestBulk(Servers):

    def both_ways(self, version):
        client, server = self.tcp_pair(version)
        self.send_bulk(client, server, form.repeats(4, 48) << 16)
        self.send_bulk(server, client, form.repeats(8, 256) << 16)

    def test_bulk_data_is_whole_with_and_without_offloads(self):
        """Segmentation and checksums by the device, the kernel, nobody."""
        self.setup_member(*PORTS, '--tc')
        for words in (('tx', 'on', 'tso', 'on', 'gso', 'on'),
                      ('tx', 'off', 'tso', 'off', 'gso', 'on'),
                      ('tx', 'off', 'tso', 'off', 'gso', 'off')):
            self.offloads(self.member, 'eth0', *words)
            for version in fabric.FAMILIES:
                with self.subTest(' '.join(words), version=version):
                    self.both_ways(version)


class TestErrors(Servers):
    """ICMP errors about answers, which come to the VIP, and through it."""

    IP_MTU = 14
    IPV6_MTU = 24

    def too_big(self, version, quoted_port, sequence, client_port):
        family = {4: (inet.IP, fabric.VIP, fabric.CLIENT),
                  6: (inet6.IPv6, fabric.VIP6, fabric.CLIENT6)}[version]
        ip, vip, client = family
        quoted = bytes(ip(src=vip, dst=client) / inet.TCP(
            sport=quoted_port, dport=client_port, seq=sequence))
        router = {4: '192.0.2.77', 6: '2001:db8:77::1'}[version]
        if version == 4:
            return bytes(inet.IP(src=router, dst=vip) / inet.ICMP(
                type=3, code=4, nexthopmtu=1300) / quoted[:28])
        return bytes(inet6.IPv6(src=router, dst=vip) /
                     inet6.ICMPv6PacketTooBig(mtu=1300) / quoted)

    def mtu(self, server, version):
        level, name = {
            4: (socket.IPPROTO_IP, self.IP_MTU),
            6: (socket.IPPROTO_IPV6, self.IPV6_MTU)}[version]
        return server.getsockopt(level, name)

    def learns(self, *words):
        self.setup_member(*PORTS, *words)
        for version in fabric.FAMILIES:
            with self.subTest(version=version):
                client, server = self.tcp_pair(version)
                client.sendall(b'question')
                self.assertEqual(b'question', server.recv(100))
                acknowledged = fabric.parsed(self.last)[inet.TCP].ack
                port = client.getsockname()[1]
                self.assertEqual(fabric.MTU, self.mtu(server, version))
                # a packet of no connection of the member's
                self.send(fabric.tunnel(
                    self.too_big(version, LISTENER + 1, acknowledged, port)))
                client.sendall(b'more')
                self.assertEqual(b'more', server.recv(100))
                self.assertEqual(fabric.MTU, self.mtu(server, version))
                self.send(fabric.tunnel(
                    self.too_big(version, LISTENER, acknowledged, port)))
                client.sendall(b'and more')
                self.assertEqual(b'and more', server.recv(100))
                self.assertEqual(1300, self.mtu(server, version))

    def test_a_smaller_path_mtu_is_learnt_in_xdp(self):
        self.learns()

    def test_a_smaller_path_mtu_is_learnt_in_tc(self):
        self.learns('--tc')
