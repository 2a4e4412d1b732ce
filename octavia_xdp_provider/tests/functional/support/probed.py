# SPDX-License-Identifier: Apache-2.0
"""Probes inside the encapsulation, with all that takes part in them: the
node's pass, checker, result handler, datapath, a router and a member.
"""

import itertools
import os
import socket
import sys
import types

from lab import namespaces
from lab import paths
from lab import processes
from octavia_xdp_provider.agent import plans
from octavia_xdp_provider.agent import probes
from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.uplinks import monitor
from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import netlink
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.tests.functional.support import hosts
from octavia_xdp_provider.tests.functional.support import private_node

NODE, ROUTER, MEMBER = HOSTS = ('node', 'router', 'member')
TOOL = private_node.BUILD / 'octavia-xdp-member'
OWN = {4: '198.18.10.11', 6: '2001:db8:10::11'}
NETWORKS = {NODE: {4: '198.18.1.{}/30', 6: '2001:db8:1::{}/64'},
            MEMBER: {4: '198.18.10.{}/24', 6: '2001:db8:10::{}/64'}}
HTTP_PORT, UDP_PORT = 80, 5353
MONITOR = {'id': 'hm', 'type': 'HTTP', 'delay': 1, 'timeout': 1,
           'max_retries': 1, 'max_retries_down': 2}
KINDS = [
    *itertools.product([name for name in enumerations.ENCAPSULATIONS
                        if name not in ('dscp', 'srv6')], (4, 6), (4, 6)),
    ('dscp', 4, 4), ('dscp', 6, 6), ('srv6', 4, 6), ('srv6', 6, 6)]
# An address that no host has, as the name of members.
NAMED = '192.168.0.5'
TUNNELS = [{'address': OWN[4], 'encapsulation': 'geneve', 'key': 7},
           {'address': OWN[6], 'encapsulation': 'geneve', 'key': 8},
           {'address': OWN[6], 'encapsulation': 'srv6'}]
SO_MARK = 36


def vip_of(number, version):
    return (f'203.0.113.{number + 1}' if version == 4
            else f'2001:db8:113::{number + 1:x}')


def behind(number, tunnel):
    """A document whose member has a tunnel, and no address."""
    document = load_balancer(number, 'ipip', 4, 4)
    document['pools']['pool']['members']['m1'].update(
        address=NAMED, tunnel=tunnel)
    return document


def load_balancer(number, encapsulation, vip_version, member_version,
                  udp=False):
    """A document with one member."""
    flavor = {'encapsulation': encapsulation}
    if encapsulation == 'dscp':
        flavor['dscp'] = number + 1
    port = UDP_PORT if udp else HTTP_PORT
    return spec.document(f'lb{number}', {
        'name': 'web', 'project_id': 'p', 'flavor': flavor,
        'vip_address': vip_of(number, vip_version),
        'listeners': {'listener': {
            'protocol': 'UDP' if udp else 'TCP', 'protocol_port': port,
            'default_pool_id': 'pool'}},
        'pools': {'pool': {
            'protocol': 'UDP' if udp else 'TCP',
            'lb_algorithm': 'SOURCE_IP_PORT',
            'members': {'m1': {'address': OWN[member_version],
                               'protocol_port': port}},
            'healthmonitor': dict(
                MONITOR, type='UDP-CONNECT' if udp else 'HTTP')}}})


class Probed(hosts.HostsCase):
    """Node, router, and a member that serves everything."""

    SOON = 240

    def setUp(self):
        super().setUp()
        for path in (private_node.library_path(), TOOL,
                     paths.HEALTH_CHECKER):
            if not os.path.exists(path):
                self.skipTest(f'{path} is not built')
        self.add_hosts(*HOSTS)
        for host in HOSTS:
            namespaces.sysctl(
                self.lab, host, net__ipv4__conf__all__rp_filter=0,
                net__ipv4__conf__default__rp_filter=0,
                net__ipv4__ip_forward=int(host == ROUTER),
                net__ipv6__conf__all__forwarding=int(host == ROUTER))
        for host in (NODE, MEMBER):
            self.connect(host)
        self.balancers = {document['id']: (1, document)
                          for document in self.documents()}
        self.vips = [document['vip_address'] for _generation, document
                     in self.balancers.values()]
        self.start_member()
        self.start_node()

    def documents(self):
        return [*(load_balancer(number, *kind)
                  for number, kind in enumerate(KINDS)),
                load_balancer(len(KINDS), 'ipip', 4, 4, udp=True),
                *(behind(len(KINDS) + 1 + number, tunnel)
                  for number, tunnel in enumerate(TUNNELS))]

    def connect(self, host):
        """Cable a host to the router; checksums must be in the packets."""
        namespaces.veth(self.lab, (host, 'eth0'), (ROUTER, host))
        own = {NODE: 2, MEMBER: 11}[host]
        for end, name in ((host, 'eth0'), (ROUTER, host)):
            processes.run(self.lab, end, ['ethtool', '-K', name, 'tx', 'off'])
            processes.run(self.lab, end, ['ip', 'link', 'set', name, 'mtu',
                                          '1600'])
        for version, pattern in NETWORKS[host].items():
            namespaces.address(self.lab, host, 'eth0', pattern.format(own))
            namespaces.address(self.lab, ROUTER, host, pattern.format(1))
            processes.run(self.lab, host, [
                'ip', f'-{version}', 'route', 'add', 'default', 'via',
                pattern.format(1).partition('/')[0], 'mtu', '1500'])

    def start_member(self):
        documents = self.lab.run_directory / 'documents'
        documents.mkdir()
        processes.start(self.lab, MEMBER, 'http', [
            sys.executable, '-m', 'http.server', str(HTTP_PORT), '--bind',
            '::'], cwd=documents)
        processes.start(self.lab, MEMBER, 'udp', [
            sys.executable, '-m', 'lab.fabric.udp_echo', str(UDP_PORT),
            'member'], cwd=paths.CHECKOUT)
        for name in ('http', 'udp'):
            self.addCleanup(processes.stop, self.lab, name)
        self.setup_member()

    def setup_member(self):
        words = [word for vip in self.vips for word in ('--vip', vip)]
        for _generation, document in self.balancers.values():
            if 'dscp' in document['flavor']:
                words += ['--dscp', f'{document["flavor"]["dscp"]}='
                                    f'{document["vip_address"]}']
        processes.run(self.lab, MEMBER, [
            TOOL, 'setup', *words, '--node', '198.18.1.0/24', '--node',
            '2001:db8:1::/64', 'eth0'])

    def address_on_lo(self, verb, *vips):
        for vip in vips:
            length = 128 if ':' in vip else 32
            processes.run(self.lab, MEMBER, [
                'ip', 'address', verb, f'{vip}/{length}', 'dev', 'lo',
                *(['nodad'] if length == 128 and verb == 'add' else [])])

    def start_node(self):
        run = self.lab.run_directory
        self.mount_bpffs()
        self.configuration = run / 'conf'
        self.configuration.write_text(
            '[vip]\nallowed_networks = 203.0.113.0/24, 2001:db8:113::/64\n'
            f'[agent]\nrun_directory = {run}\n'
            'uplinks = eth0\n'
            'withdraw_grace = 0\nprobe_through_datapath = true\n'
            f'[datapath]\nlibrary = {private_node.library_path()}\n'
            f'pin_directory = {run}/bpf/pins\nservices_max = 64\n'
            'slots = 1009\n')
        self.conf = options.load(config_files=[str(self.configuration)])
        self.files = run_directory.RunDirectory(self.conf)
        self.files.make()
        self.datapath = self.files.open_datapath(create=True)
        self.addCleanup(self.datapath.close)
        with namespaces.inside(self.lab, NODE):
            self.kernel = netlink.Kernel()
            self.addCleanup(self.kernel.close)
            self.monitor = monitor.UplinkMonitor(
                self.conf, self.datapath, lambda: None)
            self.addCleanup(self.monitor.stop)
            self.monitor.start()
        self.reconciler = self.make_reconciler()
        self.run_pass()
        self.start_handler()
        self.start_checker()
        for name in ('handler', 'hc'):
            self.addCleanup(processes.stop, self.lab, name)

    def start_handler(self):
        processes.start(self.lab, NODE, 'handler', [
            sys.executable, '-m', 'octavia_xdp_provider.cmd.result_handler',
            '--config-file', self.configuration], cwd=paths.CHECKOUT)

    def start_checker(self):
        processes.start(self.lab, NODE, 'hc', [
            paths.HEALTH_CHECKER, 'run', '--checks', self.files.checks,
            '--queue', self.files.queue])

    def make_reconciler(self):
        self.probes = probes.Probes(self.datapath, self.kernel, ['eth0'],
                                    True)
        policy = address_policy.AddressPolicy(
            tuple(option_values.networks(self.conf, 'vip',
                                         'allowed_networks')),
            (), frozenset())
        return reconcile.Reconciler(
            self.conf, types.SimpleNamespace(
                checks=self.files.checks,
                handler_wakeup=self.files.handler_wakeup),
            self.datapath, announcements.Announcements(
                str(self.lab.run_directory), policy.vip_networks),
            plans.Inputs(lambda: policy, probes=self.probes))

    def run_pass(self):
        with namespaces.inside(self.lab, NODE):
            self.outcome = self.reconciler.reconcile(
                reconcile.Wanted(1, self.balancers), frozenset((4, 6)))
        self.assertEqual({}, self.outcome.failed)

    def key_of(self, name):
        _generation, document = self.balancers[name]
        return datapath.Key(document['vip_address'], 'TCP', HTTP_PORT)

    def states(self):
        """Load balancer → state of its member."""
        return {name: members['m1'] for name, members
                in self.reconciler.members().items()}

    def wait_states(self, **expected):
        def there():
            return self.states() == {
                name: expected.get(name, expected['others'])
                for name in self.balancers}
        self.wait(lambda: f'states {expected}: {self.states()}, '
                          f'{self.probes.report()}, {self.kinds()}', there)

    def kinds(self):
        return {name: KINDS[number] for number, name
                in enumerate(self.balancers) if number < len(KINDS)}

    def marks(self):
        return {target.vip: mark for mark, target
                in self.datapath.probes().items()}

    def connected(self, vip):
        """A socket to a VIP that has the mark of its only member."""
        family = socket.AF_INET6 if ':' in vip else socket.AF_INET
        with namespaces.inside(self.lab, NODE):
            opened = socket.socket(family, socket.SOCK_STREAM)
        self.addCleanup(opened.close)
        opened.setsockopt(socket.SOL_SOCKET, SO_MARK, self.marks()[vip])
        opened.settimeout(self.SOON)
        opened.connect((vip, HTTP_PORT))
        return opened
