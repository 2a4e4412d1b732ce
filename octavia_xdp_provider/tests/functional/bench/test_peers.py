# SPDX-License-Identifier: Apache-2.0
"""What this product is set beside, in network namespaces: needs root, and the
Debian packages of bindep's profile bench."""

import collections
import dataclasses
import hashlib
import subprocess
import sys

from bench import errors
from bench.engine import clients
from bench.software import haproxy
from bench.software import interface
from bench.software import ipvs
from bench.software import kernel
from bench.software import nginx
from bench.software import xdp
from bench.traffic import servers
from bench.traffic.clients import wrk
from octavia_xdp_provider.tests.functional.support import peer_bed
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base

VIPS = {4: '203.0.113.10', 6: '2001:db8:113::10'}
PORT = 8000
REQUESTS = 40
BODY = 3000


@form.in_long_form
class PeerTest(waiting.Waiting, base.TestCase):
    """A bed, members that serve, and a client with an address of its own."""

    nodes = 1

    def setUp(self):
        super().setUp()
        self.bed = self.enter_context(peer_bed.build(self.nodes))
        self.client = self.bed.hosts['generator']
        self.members = peer_bed.hosts(self.bed, 'member')

    def enter_context(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def service(self, version=4):
        return interface.Service(VIPS[version], PORT, 'tcp', tuple(
            interface.Member(peer_bed.address(host, version), PORT, host.name)
            for host in self.members))

    def serve(self, software, version=4, **configuration):
        service = self.service(version)
        self.enter_context(servers.http(self.bed, [service], BODY))
        deployment = self.enter_context(software.deploy(
            self.bed, [service], configuration))
        self.enter_context(clients.at([self.client], service.vip))
        return service, deployment

    def ask(self, service, path='name', number=REQUESTS):
        """Bodies of answers, each on a connection of its own."""
        host = f'[{service.vip}]' if ':' in service.vip else service.vip
        done = self.client.run([
            'curl', '-sS', '-m', '10', '-H', 'Connection: close',
            *[f'http://{host}:{PORT}/{path}'] * number], timeout=120)
        return done.stdout

    def names(self, service, number=REQUESTS):
        return collections.Counter(self.ask(service, number=number).split())


class Serving:
    """Of each kind."""

    def check_serves(self, version):
        service, _ = self.serve(self.software, version)
        body = 'x' * (BODY - 1) + '\n'
        self.assertEqual(
            hashlib.sha256((body * 5).encode()).digest(),
            hashlib.sha256(self.ask(service, '', 5).encode()).digest())
        names = self.names(service)
        self.assertEqual(REQUESTS, names.total())
        self.assertEqual({host.name for host in self.members}, set(names))

    def test_requests_are_answered_by_all_members(self):
        self.check_serves(4)

    def test_requests_over_ipv6_are(self):
        self.check_serves(6)

    def test_members_are_replaced(self):
        service, deployment = self.serve(self.software)
        for kept in service.members:
            deployment.set_members(dataclasses.replace(
                service, members=(kept,)))
            self.assertEqual({kept.host: REQUESTS}, self.names(service))
        deployment.set_members(service)
        self.assertEqual({host.name for host in self.members},
                         set(self.names(service)))

    def test_costs_rise_with_requests_and_memory_is_told(self):
        service, deployment = self.serve(self.software)
        client = wrk.Wrk(connections=4)
        client.prepare(self.client)
        looks = [deployment.cpu_seconds()]
        for _ in range(2):
            done = client.parse(self.client, self.client.run(client.command(
                self.client, service.vip, PORT, 1)).stdout)
            self.assertGreater(done.done, 0)
            self.assertEqual([], done.marks)
            looks.append(deployment.cpu_seconds())
        self.assertEqual(sorted(set(looks)), looks)
        self.assertGreaterEqual(deployment.memory_bytes(),
                                self.memory_at_least)

    def test_what_it_does_not_know_is_refused(self):
        error = self.assertRaises(
            errors.BenchError, self.software.deploy(
                self.bed, [self.service()], {'colour': 'red'}).__enter__)
        self.assertIn('unknown key "colour"', str(error))

    def test_nothing_is_left(self):
        before = self.state()
        with self.software.deploy(self.bed, [self.service()], {}) as made:
            self.assertNotEqual(before, self.state())
            made.cpu_seconds()
        self.assertEqual(before, self.state())

    def state(self):
        """Of network and processes, of all hosts."""
        states = {}
        for host in self.bed.hosts.values():
            states[host.name] = '\n'.join(
                host.run(['ip', *words]).stdout for words in (
                    ['-4', 'route', 'show', 'table', 'all'],
                    ['-6', 'route', 'show', 'table', 'all', 'type',
                     'unicast'], ['rule'], ['-6', 'rule'],
                    ['-brief', 'address'])) + host.run(
                        ['ss', '-Hlntu']).stdout + host.run(
                        ['sysctl', 'net.ipv4.ip_local_port_range',
                         'net.ipv4.ip_early_demux', 'net.ipv4.ip_forward'],
                        ).stdout
        return states


class TestHaproxy(Serving, PeerTest):

    software = haproxy.Haproxy()
    memory_at_least = 1 << 20

    def test_datagrams_are_refused(self):
        service = dataclasses.replace(self.service(), protocol='udp')
        error = self.assertRaises(
            errors.BenchError,
            self.software.deploy(self.bed, [service], {}).__enter__)
        self.assertIn('is of udp', str(error))

    def test_a_member_that_does_not_answer_gets_no_requests(self):
        service, deployment = self.serve(self.software, check_interval_s=1,
                                         fall=1)
        deployment.set_members(dataclasses.replace(service, members=(
            *service.members,
            dataclasses.replace(service.members[0], port=PORT + 1))))
        # A refused connection is tried again with another member anyway.
        self.wait('end of failures', lambda: (
            self.names(service).total() == REQUESTS))


class TestNginx(Serving, PeerTest):

    software = nginx.Nginx()
    memory_at_least = 1 << 20


class TestKernel(Serving, PeerTest):

    software = kernel.Kernel()
    memory_at_least = 0

    def test_other_ports_are_refused(self):
        service = self.service()
        service = dataclasses.replace(service, members=tuple(
            dataclasses.replace(member, port=PORT + 1)
            for member in service.members))
        error = self.assertRaises(
            errors.BenchError,
            self.software.deploy(self.bed, [service], {}).__enter__)
        self.assertIn('forwarding changes no port', str(error))


class TestXdp(PeerTest):
    """This product, by the same members: it is compared with the others."""

    def test_requests_are_answered_by_all_members(self):
        service, deployment = self.serve(xdp.Xdp())
        names = self.names(service)
        self.assertEqual({host.name for host in self.members}, set(names))
        before = deployment.cpu_seconds()
        self.names(service)
        self.assertGreater(deployment.cpu_seconds(), before)


class TestAfterEachOther(PeerTest):

    def test_one_after_the_other_serves_the_same_clients(self):
        service = self.service()
        self.enter_context(servers.http(self.bed, [service], BODY))
        client = wrk.Wrk(connections=8, keep_alive=False)
        client.prepare(self.client)
        for software in (haproxy.Haproxy(), kernel.Kernel(), nginx.Nginx(),
                         xdp.Xdp(), kernel.Kernel()):
            with (software.deploy(self.bed, [service], {}),
                  clients.at([self.client], service.vip)):
                done = client.parse(self.client, self.client.run(
                    client.command(self.client, service.vip, PORT, 1)).stdout)
                self.assertEqual([], done.marks, software.name)
                self.assertEqual(REQUESTS, self.names(service).total())


class TestTwoNodes(PeerTest):

    nodes = 2

    def check_nodes(self, software):
        service, deployment = self.serve(software)
        for host in peer_bed.hosts(self.bed, 'lb'):
            deployment.stop_node(host.name)
            self.assertEqual(REQUESTS, self.names(service).total())
            self.assertRaises(errors.BenchError, deployment.stop_node,
                              host.name)
            deployment.start_node(host.name)
        self.assertEqual(REQUESTS, self.names(service).total())

    def test_a_proxy_stops_and_serves_again(self):
        self.check_nodes(haproxy.Haproxy())

    def test_a_kernel_stops_and_serves_again(self):
        self.check_nodes(kernel.Kernel())


class TestIpvsWithoutIt(PeerTest):

    def test_a_kernel_without_ip_vs_is_named(self):
        if self.bed.hosts['router'].run(['modprobe', 'ip_vs'],
                                        check=False).returncode == 0:
            self.skipTest('this kernel has ip_vs')
        missing = ipvs.Ipvs().missing(self.bed)
        self.assertIn('has no ip_vs', missing)
        error = self.assertRaises(
            errors.BenchError,
            ipvs.Ipvs().deploy(self.bed, [self.service()], {}).__enter__)
        self.assertEqual(missing, str(error))


@form.in_long_form
class TestKilled(waiting.Waiting, base.TestCase):
    """A run that is killed in the middle leaves no process."""

    PROGRAM = '''
import sys
from bench.software import haproxy, interface
from octavia_xdp_provider.tests.functional.support import peer_bed
with peer_bed.build() as bed:
    member, _ = peer_bed.hosts(bed, 'member')
    node, = peer_bed.hosts(bed, 'lb')
    service = interface.Service('203.0.113.10', 8000, 'tcp', (
        interface.Member(peer_bed.address(member), 8000, member.name),))
    with haproxy.Haproxy().deploy(bed, [service], {}) as made:
        made.cpu_seconds()
        print(*made.processes(node), node.folder, flush=True)
        sys.stdin.read()
'''

    def test_no_process_is_left(self):
        program = subprocess.Popen(
            [sys.executable, '-c', self.PROGRAM], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(program.stdin.close)
        self.addCleanup(program.stdout.close)
        line = program.stdout.readline().split()
        self.assertEqual(2, len(line))
        self.assertIn(line[1], self.commands())
        program.kill()
        program.wait()
        self.wait('end of its process',
                  lambda: line[1] not in self.commands())

    def commands(self):
        return subprocess.run(['ps', '-eo', 'args'], text=True, check=True,
                              capture_output=True).stdout
