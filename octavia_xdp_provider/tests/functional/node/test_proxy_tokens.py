# SPDX-License-Identifier: Apache-2.0
"""A proxy node reaches VMs of one address behind two hypervisors by tokens.

    proxy --- r === hv1 --- vmhv1
              | === hv2 --- vmhv2

The hypervisors run the product's programs, the traffic namespace of the proxy
has the tables that the launcher makes.
"""

import http.client
import ipaddress
import os
import socket

from lab import namespaces
from lab import processes
from octavia_xdp_provider.host import types
from octavia_xdp_provider.proxy.launcher import namespace
from octavia_xdp_provider.proxy.launcher import tokens
from octavia_xdp_provider.tests.functional.support import hosts
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support import proxies
from octavia_xdp_provider.tests.functional.support import token_bed

PROXY, ROUTER, HYPERVISORS = 'proxy', 'r', ('hv1', 'hv2')
NETWORKS = {PROXY: '198.51.111.', 'hv1': '198.18.20.', 'hv2': '198.18.21.'}
TOKENS = {'hv1': '100.64.0.1', 'hv2': '100.64.9.2'}
KEYS = {'hv1': 7, 'hv2': 8}
UNUSED = '100.64.0.77'
BULK = 1 << 20


class TestTables(token_bed.HypervisorsMixin, hosts.HostsCase):

    def setUp(self):
        super().setUp()
        self.skip_without_programs()
        self.mount_bpffs()
        self.add_hosts(ROUTER)
        namespaces.sysctl(self.lab, ROUTER, net__ipv4__ip_forward=1)
        for host, network in NETWORKS.items():
            self.add_behind(ROUTER, host, (f'{network}2', f'{network}1'))
            for place, link in ((host, 'eth0'), (ROUTER, host)):
                self.fill_in(place, link, 'gro', 'off')
        self.started = {name: self.start_hypervisor(
            name, f'{NETWORKS[name]}2', KEYS[name], TOKENS[name],
            f'{NETWORKS[PROXY]}0/24') for name in HYPERVISORS}
        traffic = namespace.Namespace(self.lab.namespace(PROXY))
        traffic.make()
        self.tokens = tokens.Tokens(
            traffic, [ipaddress.ip_network(token_bed.NETWORK)],
            self.lock(PROXY), str(self.bpffs / PROXY),
            private_node.library_path())

    def ask(self, token):
        """Return which VM is behind a token; as much as it is sent comes
        back."""
        data = os.urandom(BULK)
        with namespaces.inside(self.lab, PROXY):
            connection = socket.create_connection((token, token_bed.PORT), 30)
        with connection:
            client = http.client.HTTPConnection(token)
            client.sock = connection
            client.request('POST', '/', data)
            answer = client.getresponse()
            self.assertEqual(data, answer.read())
            return answer.headers['X-Name']

    def refused(self, token):
        with namespaces.inside(self.lab, PROXY):
            client = socket.socket()
        with client:
            client.settimeout(1)
            self.assertRaises(OSError, client.connect, (token, token_bed.PORT))

    def token(self, name, key, at=None):
        return tokens.Token(TOKENS[name], token_bed.FIXED,
                            f'{NETWORKS[at or name]}2', 'geneve', key)

    def wanted(self):
        return {self.token(name, key) for name, key in KEYS.items()}

    def nft(self, *words):
        return processes.run(self.lab, ROUTER, ['nft', *words]).stdout

    def test_equal_addresses_of_two_tenants_are_told_apart(self):
        self.nft('add table ip t; add chain ip t seen { type filter hook '
                 'prerouting priority raw; }; add rule ip t seen ip daddr '
                 f'{token_bed.NETWORK} counter')
        self.assertTrue(self.tokens.apply(self.wanted()))
        for name, token in TOKENS.items():
            self.assertEqual(name, self.ask(token))
        self.refused(UNUSED)
        # No packet to such an address has reached the fabric.
        self.assertIn('packets 0 ', self.nft('list', 'table', 'ip', 't'))

    def test_rules_of_the_port_decide(self):
        self.tokens.apply(self.wanted())
        self.assertEqual('hv1', self.ask(TOKENS['hv1']))
        host, port, tap = self.started['hv1']
        host.set_port(types.Port(port, tap), ())
        self.refused(TOKENS['hv1'])
        self.assertEqual('hv2', self.ask(TOKENS['hv2']))

    def test_vm_is_probed_by_ping(self):
        self.tokens.apply(self.wanted())
        processes.run(self.lab, PROXY, ['ping', '-c', '1', '-W', '10',
                                        TOKENS['hv1']])

    def test_a_token_may_move(self):
        self.tokens.apply({self.token('hv1', 7)})
        self.assertEqual('hv1', self.ask(TOKENS['hv1']))
        host, port, _ = self.started['hv2']
        host.set_entry(self.entry('vmhv2', port, 9, TOKENS['hv1']))
        self.tokens.apply({self.token('hv1', 9, 'hv2')})
        self.assertEqual('hv2', self.ask(TOKENS['hv1']))

    def test_tables_that_are_there_are_adopted(self):
        self.tokens.apply(self.wanted())
        self.tokens.forget()
        self.assertTrue(self.tokens.apply({self.token('hv2', 8)}))
        self.assertEqual('hv2', self.ask(TOKENS['hv2']))
        self.refused(TOKENS['hv1'])


class TestLauncher(token_bed.HypervisorsMixin, proxies.ProxiesCase):
    """A hypervisor beside the proxy node."""

    @property
    def options(self):
        return (f'token_networks = {token_bed.NETWORK}\n[datapath]\n'
                f'pin_directory = {self.bpffs}/node\n'
                f'library = {private_node.library_path()}\n')

    def setUp(self):
        super().setUp()
        self.skip_without_programs()
        self.mount_bpffs()
        self.add_hosts('hv1')
        self.cable(('hv1', 'eth0', '198.18.20.2'),
                   (PROXY, 'hv1', '198.18.20.1'))
        for host, link in (('hv1', 'eth0'), (PROXY, 'hv1')):
            self.fill_in(host, link, 'gro', 'off')
        self.ip('hv1', 'route', 'add', 'default', 'via', '198.18.20.1')
        self.ip(PROXY, 'route', 'add', token_bed.NETWORK, 'via',
                '198.18.20.2')
        self.start_hypervisor('hv1', '198.18.20.2', 7, TOKENS['hv1'],
                              '198.18.20.0/24')

    def wanted(self):
        return [{'address': TOKENS['hv1'], 'member': token_bed.FIXED,
                 'tunnel': {'address': '198.18.20.2',
                            'encapsulation': 'geneve', 'key': 7}}]

    def test_haproxy_serves_a_vm_and_goes_on_without_the_launcher(self):
        self.start_launcher()
        self.serve(proxies.configuration(member=TOKENS['hv1']),
                   members=(TOKENS['hv1'],), tokens=self.wanted())
        self.assertEqual((200, 'one'), self.get())
        self.kill_launcher()
        self.assertEqual((200, 'one'), self.get())
        self.start_launcher()
        self.serve(proxies.configuration('two', TOKENS['hv1']),
                   members=(TOKENS['hv1'],), tokens=self.wanted())
        self.assertEqual((200, 'two'), self.get())
