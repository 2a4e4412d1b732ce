# SPDX-License-Identifier: Apache-2.0
"""Servers on several ports of one member: needs root.

The node's own program writes the member's port, the member's program puts the
listener's port back into answers.
"""

import json
import socket
import threading

from lab import namespaces
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import private_node

LISTENER, LOCALS = 80, (8080, 8081)
RULES = [f'{vip}:{LISTENER}/{protocol}={local}'
         for vip in (fabric.VIP, f'[{fabric.VIP6}]')
         for protocol in ('tcp', 'udp') for local in LOCALS]
PORTS = [word for rule in RULES for word in ('--answer-port', rule)]


class TestSeveralPorts(private_node.PrivateState, fabric.Fabric):

    def setUp(self):
        self.node_lock = threading.Lock()
        self.node_state = None
        super().setUp()
        opened = self.open()
        self.addCleanup(self.end_relay)  # before the datapath closes
        opened.set_node(datapath.NodeSettings(fabric.NODE, fabric.NODE6))
        with namespaces.entered(self.client):
            opened.set_uplinks([datapath.Uplink(
                1, 1500, fabric.GATEWAY_MAC, fabric.MEMBER_MAC,
                fabric.MEMBER_MAC)])
        for _, vip in fabric.FAMILIES.values():
            for protocol in ('TCP', 'UDP'):
                opened.set_service(
                    datapath.Key(vip, protocol, LISTENER),
                    [datapath.Member(fabric.OWN, port=local)
                     for local in LOCALS])
        self.node_state = opened

    def through_node(self, frame):
        with self.node_lock:
            (_, out), = self.node_state.run([(frame, 1)])
        return fabric.parsed(out[14:])

    def servers(self, family, vip, kind):
        servers = {}
        for local in LOCALS:
            servers[local] = self.socket(self.member, family, kind)
            servers[local].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR,
                                      1)
            servers[local].bind((vip, local))
        return servers

    def test_clients_of_one_listener_reach_both_servers(self):
        for words in ((), ('--tc',)):
            self.setup_member(*PORTS, '--sysctl', *words)
            for version, (family, vip) in fabric.FAMILIES.items():
                with self.subTest(version=version, words=words):
                    self.tcp(family, vip)
                    self.udp(family, vip)
            self.tool('check', 'eth0')
            self.tool('remove', 'eth0')

    def tcp(self, family, vip):
        servers = self.servers(family, vip, socket.SOCK_STREAM)

        def serve(server, text):
            while True:
                try:
                    accepted, _ = server.accept()
                except OSError:
                    return
                with accepted:
                    accepted.sendall(text)
        threads = []
        for local, server in servers.items():
            server.listen()
            threads.append(threading.Thread(
                target=serve, args=(server, str(local).encode())))
            threads[-1].start()
        met = set()
        try:
            for _ in range(24):
                client = self.socket(self.client, family, socket.SOCK_STREAM)
                client.connect((vip, LISTENER))
                met.add(int(client.recv(100)))
                client.close()
        finally:
            for server in servers.values():
                server.shutdown(socket.SHUT_RDWR)
                server.close()
            for thread in threads:
                thread.join()
        self.assertEqual(set(LOCALS), met)

    def udp(self, family, vip):
        servers = self.servers(family, vip, socket.SOCK_DGRAM)

        def serve(server, text):
            for _ in range(1000):
                data, peer = server.recvfrom(100)
                if data == b'end':
                    return
                server.sendto(text, peer)
        threads = [threading.Thread(
            target=serve, args=(server, str(local).encode()))
            for local, server in servers.items()]
        for thread in threads:
            thread.start()
        met = set()
        try:
            for _ in range(24):
                client = self.socket(self.client, family, socket.SOCK_DGRAM)
                client.connect((vip, LISTENER))
                client.send(b'who?')
                met.add(int(client.recv(100)))
                client.close()
        finally:
            last = self.socket(self.member, family, socket.SOCK_DGRAM)
            for local in LOCALS:
                last.sendto(b'end', (vip, local))
            for thread in threads:
                thread.join()
            for server in servers.values():
                server.close()
        self.assertEqual(set(LOCALS), met)


class TestTool(fabric.Fabric):

    def test_both_kinds_for_one_vip_are_refused(self):
        done = self.try_tool(
            'setup', '--vip', fabric.VIP, *fabric.NODES, '--port',
            f'{fabric.VIP}:443/tcp=8443', '--answer-port',
            f'{fabric.VIP}:80/tcp=8080', 'eth0')
        self.assertEqual(1, done.returncode)
        self.assertIn('all by LB nodes', done.stderr)

    def test_two_ports_of_a_listener_are_refused_as_port(self):
        done = self.try_tool(
            'setup', '--vip', fabric.VIP, *fabric.NODES, '--port',
            f'{fabric.VIP}:80/tcp=8081', '--port',
            f'{fabric.VIP}:80/tcp=8080', 'eth0')
        self.assertEqual(1, done.returncode)
        self.assertIn('--answer-port', done.stderr)

    def test_show_prints_what_setup_takes(self):
        self.setup_member(*PORTS)
        shown = json.loads(self.tool('show', '--json', 'eth0'))
        self.assertEqual(sorted(RULES), sorted(shown['answer-port']))
        self.assertEqual([], shown['port'])
        text = self.tool('show', 'eth0')
        self.assertIn(f'answer-port = {RULES[0]}\n', text)
        self.assertNotIn('\nport = ', text)
        before = json.loads(self.tool('show', '--json', 'eth0'))
        self.setup_member(*PORTS)
        self.assertEqual(before, json.loads(
            self.tool('show', '--json', 'eth0')))
