# SPDX-License-Identifier: Apache-2.0
"""Members that accept all VIPs of a network: needs root."""

import json
import socket

from scapy.layers import inet

from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import member_tool

NETWORKS = ('203.0.113.0/24', '2001:db8:f::/64')
SETUP = ('setup', '--vip-network', NETWORKS[0], '--vip-network', NETWORKS[1],
         *fabric.NODES, '--sysctl')
IPV6_FREEBIND = 78  # linux/in6.h


class TestVipNetworks(member_tool.Tool):

    def add_routes(self):
        fabric.ip(self.member, *(f'route add local {network} dev lo'
                                 for network in NETWORKS))

    def exchange(self, version):
        """A connection to a VIP that no option names, and an answer."""
        family, vip = fabric.FAMILIES[version]
        server = self.socket(self.member, family, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if version == 6:
            # Local routes alone let only IPv4 sockets be bound.
            server.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        server.bind((vip, 80))
        server.listen()
        client = self.socket(self.client, family, socket.SOCK_STREAM)
        client.connect((vip, 80))
        accepted, _ = server.accept()
        self.addCleanup(accepted.close)
        accepted.settimeout(20)
        client.sendall(b'question')
        self.assertEqual(b'question', accepted.recv(100))
        accepted.sendall(b'answer')
        self.assertEqual(b'answer', client.recv(100))
        server.close()
        return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)

    def test_all_vips_of_the_networks_are_served(self):
        self.add_routes()
        for mode in ((), ('--tc',)):
            self.tool(*SETUP, *mode, 'eth0')
            for version in fabric.FAMILIES:
                with self.subTest(mode=mode, version=version):
                    segment = self.exchange(version)
                    # Answers of such a VIP are clamped as those of others.
                    self.assertLess(segment, fabric.MTU - 80)
        self.assertEqual(0, self.counters()['passed_not_vip'])
        self.assertGreater(self.counters()['mss_out'], 0)
        self.assertEqual({}, self.check())

    def test_networks_are_shown_and_no_address_is_added(self):
        before = self.addresses()
        self.tool(*SETUP, 'eth0')
        self.assertEqual(before, self.addresses())
        shown = json.loads(self.tool('show', '--json', 'eth0'))
        self.assertEqual((sorted(NETWORKS), []),
                         (sorted(shown['vip-network']), shown['vip']))

    def test_missing_local_route_is_reported(self):
        self.tool(*SETUP, 'eth0')
        self.assertIn('route add local', self.check()['vip'])
        self.add_routes()
        self.assertEqual({}, self.check())

    def test_own_address_within_a_network_is_no_vip(self):
        """Tunnel packets to it carry nothing for it."""
        self.tool('setup', '--vip-network', '10.1.0.0/24', *fabric.NODES,
                  '--address', fabric.OWN, 'eth0')
        self.send(fabric.tunnel(bytes(inet.IP(
            src=fabric.CLIENT, dst=fabric.OWN) / inet.UDP(dport=9))))
        self.wait('it is left to the stack',
                  lambda: self.counters()['passed_not_vip'])

    def test_wrong_networks_are_refused_with_the_reason(self):
        for network, reason in (('203.0.113.1/24', 'behind its prefix'),
                                ('203.0.113', 'no IPv4 or IPv6 network')):
            with self.subTest(network):
                self.assertIn(reason, self.refused(
                    'setup', '--vip-network', network, '--any-source',
                    'eth0'))
        self.assertIn('in no --vip-network', self.refused(
            'setup', '--vip-network', NETWORKS[0], '--any-source', '--port',
            '192.0.2.9:80/tcp=81', 'eth0'))
