# SPDX-License-Identifier: Apache-2.0
"""A proxy node reaches VMs of one address behind two hypervisors by tokens.

    proxy --- r === hv1 --- vm1
              | === hv2 --- vm2

The hypervisors run the product's programs, the traffic namespace of the proxy
has the tables that the launcher makes.
"""

import ipaddress
import os
import socket
import threading
import uuid

from lab import namespaces
from octavia_xdp_provider.host import datapath as host_datapath
from octavia_xdp_provider.host import types
from octavia_xdp_provider.proxy.launcher import namespace
from octavia_xdp_provider.proxy.launcher import tokens
from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import hosts
from octavia_xdp_provider.tests.functional.support import hypervisor
from octavia_xdp_provider.tests.functional.support import private_node

PROXY, ROUTER, HYPERVISORS = 'proxy', 'r', ('hv1', 'hv2')
NETWORKS = {PROXY: '198.51.111.', 'hv1': '198.18.20.', 'hv2': '198.18.21.'}
TOKEN_NETWORK = ipaddress.ip_network('100.64.0.0/10')
TOKENS = {'hv1': '100.64.0.1', 'hv2': '100.64.9.2'}
UNUSED = '100.64.0.77'
FIXED, PORT = hypervisor.FIXED, hypervisor.LOCAL
BULK = 1 << 20
RULE = types.Rule(4, 'tcp', (PORT, PORT), f'{NETWORKS[PROXY]}0/24')


class TestTokens(hosts.HostsCase):

    def setUp(self):
        super().setUp()
        for path in (hypervisor.LIBRARY, private_node.library_path()):
            if not os.path.exists(path):
                self.skipTest(f'{path} is not built (make -C datapath)')
        if tuple(map(int, os.uname().release.split('.')[:2])) < (6, 6):
            self.skipTest('tcx is not in this kernel')
        self.mount_bpffs()
        self.add_hosts(ROUTER)
        namespaces.sysctl(self.lab, ROUTER, net__ipv4__ip_forward=1)
        for host, network in NETWORKS.items():
            self.add_behind(ROUTER, host, (f'{network}2', f'{network}1'))
            for place, link in ((host, 'eth0'), (ROUTER, host)):
                self.fill_in(place, link, 'gro', 'off')
        self.hosts = {name: self.hypervisor(name, key) for key, name
                      in enumerate(HYPERVISORS, 7)}
        traffic = namespace.Namespace(self.lab.namespace(PROXY))
        traffic.make()
        self.tokens = tokens.Tokens(
            traffic, [TOKEN_NETWORK], self.lock(PROXY),
            str(self.bpffs / PROXY), private_node.library_path())

    def hypervisor(self, name, key):
        """Return the datapath of a hypervisor with a VM that answers."""
        vm, port = f'vm{name}', str(uuid.UUID(int=key << 96))
        self.add_hosts(vm)
        namespaces.veth(self.lab, (name, 'tap0'), (vm, 'eth0'))
        namespaces.address(self.lab, vm, 'eth0', f'{FIXED}/24')
        self.fill_in(vm, 'eth0', 'gro', 'off')
        self.ip(vm, 'route', 'add', 'default', 'via',
                hypervisor.SUBNET_GATEWAY)
        self.ip(vm, 'neigh', 'add', hypervisor.SUBNET_GATEWAY, 'dev', 'eth0',
                'lladdr', hypervisor.ROUTER_MAC)
        self.answer(vm, name)
        folder, library = str(self.bpffs / name), str(hypervisor.LIBRARY)
        host_datapath.Datapath.create(folder, types.Sizes(
            64, 8, 4096, 4096), library)
        self.addCleanup(host_datapath.Datapath.remove, folder, library)
        host = host_datapath.Datapath(folder, library)
        self.addCleanup(host.close)
        with namespaces.inside(self.lab, name):
            nic, tap = map(socket.if_nametoindex, ('eth0', 'tap0'))
            host.set_settings(types.Settings(nic, f'{NETWORKS[name]}2'))
            host.set_networks(['198.18.0.0/24'])
            host.set_proxies([f'{NETWORKS[PROXY]}0/24'])
            host.set_port(types.Port(port, tap), (RULE,))
            host.set_entry(types.Entry(
                key, port, TOKENS[name], PORT, FIXED, PORT, 'tcp',
                self.mac(vm, 'eth0'), hypervisor.ROUTER_MAC, 1400))
            for hook, index in ((types.Hook.NIC, nic),
                                (types.Hook.TAP_IN, tap),
                                (types.Hook.TAP_OUT, tap)):
                host.attach(hook, index)
        self.port_of = {**getattr(self, 'port_of', {}), name: (port, tap)}
        return host

    def answer(self, vm, name):
        """Let a VM answer each connection with a name and what it got."""
        with namespaces.inside(self.lab, vm):
            server = socket.create_server((FIXED, PORT))
        self.addCleanup(server.close)

        def serve():
            while True:
                try:
                    accepted, _ = server.accept()
                except OSError:
                    return
                with accepted:
                    data = b''
                    while len(data) < BULK and (part := accepted.recv(65536)):
                        data += part
                    accepted.sendall(name.encode() + data)
        threading.Thread(target=serve, daemon=True).start()
        self.addCleanup(server.shutdown, socket.SHUT_RDWR)

    def ask(self, token, size=BULK, timeout=30):
        """Return what the VM behind a token answers."""
        data = os.urandom(size)
        with namespaces.inside(self.lab, PROXY):
            client = socket.socket()
        with client:
            client.settimeout(timeout)
            client.connect((token, PORT))
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            got = b''
            while part := client.recv(65536):
                got += part
        self.assertEqual(data, got[-size:])
        return got[:-size].decode()

    def token(self, name, key, at=None):
        return tokens.Token(TOKENS[name], FIXED, f'{NETWORKS[at or name]}2',
                            'geneve', key)

    def wanted(self):
        return {self.token('hv1', 7), self.token('hv2', 8)}

    def refused(self, token):
        with namespaces.inside(self.lab, PROXY):
            client = socket.socket()
        with client:
            client.settimeout(1)
            self.assertRaises(OSError, client.connect, (token, PORT))

    def test_equal_addresses_of_two_tenants_are_told_apart(self):
        self.assertTrue(self.tokens.apply(self.wanted()))
        for name, token in TOKENS.items():
            self.assertEqual(name, self.ask(token))
        # nothing to no token reaches the router
        before = self.packets_to(UNUSED)
        self.refused(UNUSED)
        self.assertEqual(before, self.packets_to(UNUSED))

    def packets_to(self, token):
        """Return how many packets to a token the router has received."""
        listed = fabric.command('ip', 'netns', 'exec',
                                self.lab.namespace(ROUTER), 'nft', 'list',
                                'ruleset')
        if 'seen' not in listed:
            fabric.command(
                'ip', 'netns', 'exec', self.lab.namespace(ROUTER), 'nft',
                'add table ip seen; add chain ip seen in { type filter hook '
                f'prerouting priority raw; }}; add rule ip seen in ip daddr '
                f'{TOKEN_NETWORK} counter')
            return self.packets_to(token)
        words = listed.split()
        return int(words[words.index('packets') + 1])

    def test_rules_of_the_port_decide(self):
        self.tokens.apply(self.wanted())
        self.assertEqual('hv1', self.ask(TOKENS['hv1']))
        self.hosts['hv1'].set_port(types.Port(*self.port_of['hv1']), ())
        self.refused(TOKENS['hv1'])
        self.assertEqual('hv2', self.ask(TOKENS['hv2']))

    def test_a_token_may_move(self):
        self.tokens.apply({self.token('hv1', 7)})
        self.assertEqual('hv1', self.ask(TOKENS['hv1']))
        port, _ = self.port_of['hv2']
        self.hosts['hv2'].set_entry(types.Entry(
            9, port, TOKENS['hv1'], PORT, FIXED, PORT, 'tcp',
            self.mac('vmhv2', 'eth0'), hypervisor.ROUTER_MAC, 1400))
        self.tokens.apply({self.token('hv1', 9, 'hv2')})
        self.assertEqual('hv2', self.ask(TOKENS['hv1']))

    def test_tables_that_are_there_are_adopted(self):
        self.tokens.apply(self.wanted())
        self.tokens.forget()
        self.assertTrue(self.tokens.apply({self.token('hv2', 8)}))
        self.assertEqual('hv2', self.ask(TOKENS['hv2']))
        self.refused(TOKENS['hv1'])
