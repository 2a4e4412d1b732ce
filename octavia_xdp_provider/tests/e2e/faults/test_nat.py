# SPDX-License-Identifier: Apache-2.0
"""Members that nobody prepares: load balancers with forwarding nat."""

import hashlib
import ipaddress
import json
import os
import signal

from openstack import exceptions

from lab import cloud
from lab import paths
from lab import processes
from lab.control import octavia as lab_octavia
from lab.fabric import capture
from lab.fabric import client
from lab.fabric import download
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import router
from lab.fabric import topology
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.tests.e2e.support import nat

HOSTS = nat.HOSTS
FILE, FILE_BYTES = 'nat-large', 8 << 20
LONG_BYTES = 48 << 20  # more than the client takes before it reads


class TestNat(nat.NatTestCase):

    def refused(self, why, call, *arguments, **fields):
        with self.assertRaises(exceptions.HttpException) as raised:
            call(*arguments, **fields)
        self.assertIn(why, str(raised.exception.details))

    def serve(self, size=FILE_BYTES):
        """Give both members one large file; its SHA-256."""
        content = os.urandom(size)
        for host in HOSTS:
            path = members.files(self.lab, host) / FILE
            path.write_bytes(content)
            self.addCleanup(path.unlink, missing_ok=True)
        return hashlib.sha256(content).hexdigest()

    def check_requests(self, balancer, number=200):
        answers = client.requests(self.lab, self.url(balancer), number)
        self.assertEqual([], answers.failures)
        self.assertEqual(number, sum(answers.count.values()))
        self.assertEqual(set(HOSTS), set(answers.count))

    def test_clients_reach_servers_on_another_port(self):
        balancer, *_ = self.create_nat()
        with capture.at_node(self.lab, 'lb1', 'tcp') as taken:
            self.check_requests(balancer)
        # Members see pools, and nothing is wrapped.
        pools = {str(address) for address in ipaddress.ip_network(
            paths.nat_pools(1)[0])}
        sent = [packet for packet in taken.packets if not packet.outgoing
                and packet.destination in {members.address(host)
                                           for host in HOSTS}
                and packet.source in pools]
        self.assertGreater(len(sent), 100)

    def test_families_of_clients_and_members_may_differ(self):
        for version, member_version in ((6, 4), (4, 6), (6, 6)):
            with self.subTest(vip=version, members=member_version):
                balancer, *_ = self.create_nat(version, member_version)
                self.check_requests(balancer)
                self.check_download(balancer, self.serve())

    def check_download(self, balancer, checksum):
        with download.Download(self.lab, balancer.vip_address, 80,
                               f'/{FILE}') as one:
            self.assertEqual(200, one.status)
        self.assertIsNone(one.problem)
        self.assertEqual((FILE_BYTES, checksum), (one.moved, one.checksum))

    def test_datagrams_are_answered(self):
        balancer, *_ = self.create_nat(
            protocol='UDP', port=53, member_port=members.UDP_PORT,
            monitor='UDP-CONNECT', delay=4)  # Octavia's least
        answers = client.udp(self.lab, balancer.vip_address, 53, 100)
        self.assertEqual([], answers.failures)
        self.assertEqual(set(HOSTS), set(answers.count))

    def test_statistics_are_exact(self):
        balancer, *_ = self.create_nat()
        checksum = self.serve()
        with capture.at_node(self.lab, 'lb1', 'tcp') as one, \
                capture.at_node(self.lab, 'lb2', 'tcp') as two:
            self.check_requests(balancer, 50)
            self.check_download(balancer, checksum)
            # Until the last packets of all connections have passed.
            self.wait('no active connection', lambda: self.statistics(
                balancer)[2:] == (51, 0), interval=2)
        sizes = {True: 0, False: 0}
        for packet in one.packets + two.packets:
            # What comes to the node leaves the router's end.
            if balancer.vip_address in (packet.source, packet.destination):
                sizes[packet.destination == balancer.vip_address] += (
                    int.from_bytes(packet.data[16:18], 'big'))
        wanted = (sizes[True], sizes[False], 51, 0)
        self.wait(f'statistics {wanted}', lambda: self.statistics(
            balancer) == wanted, interval=2)

    def statistics(self, balancer):
        """Bytes in and out, connections so far, open ones."""
        found = cloud.openstack(self.lab, 'loadbalancer', 'stats', 'show',
                                balancer.name)
        return tuple(int(found[name]) for name in (
            'bytes_in', 'bytes_out', 'total_connections',
            'active_connections'))

    def test_a_connection_that_is_open_is_active(self):
        balancer, *_ = self.create_nat()
        self.serve()
        with download.Download(self.lab, balancer.vip_address, 80,
                               f'/{FILE}') as one:
            self.wait('an active connection', lambda: int(
                self.sdk.get_load_balancer_statistics(
                    balancer.id).active_connections) == 1)
            self.wait('a flow of the project', lambda: sum(
                flows for node in topology.NODES
                for flows in self.state(node)['projects'].values()) == 1)
            self.check_is_not_deleted(*(
                node for node in topology.NODES
                if self.has_flow(node, one.port)))
        self.assertIsNone(one.problem)
        self.wait('no active connection', lambda: not int(
            self.sdk.get_load_balancer_statistics(
                balancer.id).active_connections))

    def check_is_not_deleted(self, node):
        self.addCleanup(lab_octavia.register_node, self.lab, node)
        with self.assertRaises(paths.LabError) as refused:
            self.manage('node', 'delete', node)
        self.assertIn('has 1 flows by NAT', str(refused.exception))
        self.assertEqual(1, self.state(node)['flows'])

    def test_a_member_that_fails_gets_no_new_connections(self):
        balancer, pool, made = self.create_nat()
        self.addCleanup(self.restart_member, 'member1')
        processes.kill(self.lab, members.http_name('member1'),
                       signal.SIGTERM)
        self.wait('member1 down', lambda: self.member(
            pool, made['member1']).operating_status == 'ERROR')
        self.wait_enabled(balancer, 1)
        answers = client.requests(self.lab, self.url(balancer), 50)
        self.assertEqual([], answers.failures)
        self.assertEqual({'member2': 50}, dict(answers.count))
        self.restart_member('member1')
        self.wait_enabled(balancer, 2)
        self.check_requests(balancer, 50)

    def restart_member(self, host):
        if not processes.alive(self.lab, members.http_name(host)):
            processes.restart(self.lab, members.http_name(host))

    def test_flows_survive_the_death_of_agents(self):
        balancer, *_ = self.create_nat()
        checksum = self.serve()
        with download.Download(self.lab, balancer.vip_address, 80,
                               f'/{FILE}') as one, \
                client.Load(self.lab, self.url(balancer)) as load:
            for node in topology.NODES:
                nodes.kill(self.lab, node, nodes.AGENT)
            self.sleep(2)
            for node in topology.NODES:
                self.started(node, nodes.AGENT)
            self.wait('pools', lambda: all(
                self.pools(node) for node in topology.NODES))
            self.sleep(2)
        self.assertIsNone(one.problem)
        self.assertEqual(checksum, one.checksum)
        self.assertEqual([], load.answers.failures)

    def test_a_node_is_drained_under_a_download(self):
        """The node that takes its place hands the client's packets on."""
        balancer, *_ = self.create_nat(replicas=1)
        checksum = self.serve(LONG_BYTES)
        vip = balancer.vip_address
        old, = router.announced_by(self.lab, vip)
        new, = set(topology.NODES) - {old}
        before = self.handed_on(new)
        with download.Download(self.lab, vip, 80, f'/{FILE}') as one, \
                client.Load(self.lab, self.url(balancer), pause=0.1) as load:
            self.assertTrue(self.has_flow(old, one.port))
            self.addCleanup(self.manage, 'node', 'enable', old)
            self.manage('node', 'drain', old)
            self.wait('end of the announcement', lambda: (
                router.announced_by(self.lab, vip) == [new]))
            self.wait('packets that are handed on', lambda: (
                self.handed_on(new) > before + 100))
            # Past the time after which a node without flows is left.
            self.sleep(2 * decision.FLOWS_SETTLE_S)
            self.assertEqual((True, False), (
                self.has_flow(old, one.port), self.has_flow(new, one.port)))
        self.assertEqual((None, LONG_BYTES, checksum),
                         (one.problem, one.moved, one.checksum))
        self.assertEqual([], load.answers.failures)
        self.assertGreater(sum(load.answers.count.values()), 0)
        self.manage('node', 'drain', '--wait', '--timeout', '90', old)
        with self.datapath(old) as opened:
            self.wait('end of the service', lambda: (
                opened.service(self.key(balancer)) is None))
        self.check_requests(balancer, 50)

    def test_nothing_stays_of_what_is_deleted(self):
        balancer, *_ = self.create_nat()
        self.check_requests(balancer, 20)
        vip, key = balancer.vip_address, self.key(balancer)
        cloud.openstack(self.lab, 'loadbalancer', 'delete', '--cascade',
                        '--wait', balancer.name)
        self.assertFalse(self.exists(balancer))
        self.assertEqual([], router.next_hops(self.lab, vip))
        for node in topology.NODES:
            with self.datapath(node) as opened:
                self.assertIsNone(opened.service(key))
                self.assertEqual(([], 0), opened.nat_flows(service=key))
            # The next load balancer is reached as before.
            for pool in paths.nat_pools(paths.number(node)):
                self.assertEqual(
                    [nodes.address(node, 6 if ':' in pool else 4)],
                    router.next_hops(self.lab, pool))

    def test_what_does_not_go_with_it_is_refused_by_name(self):
        admin = self.connection(cloud.ADMIN).load_balancer
        for key, value in (('encapsulation', 'gue'), ('quic', True),
                           ('member_port', 'rewrite'),
                           ('zero_touch', 'required')):
            self.refused(
                f"key '{key}'", admin.create_flavor_profile,
                name=self.unique('profile'), provider_name='xdp',
                flavor_data=json.dumps({'forwarding': 'nat', key: value}))
        balancer, *_ = self.create_nat()
        self.refused(
            'SCTP', self.sdk.create_listener, load_balancer_id=balancer.id,
            protocol='SCTP', protocol_port=81)
        self.refused(
            'cannot add to a connection', self.sdk.create_pool,
            loadbalancer_id=balancer.id, protocol='PROXY',
            lb_algorithm='SOURCE_IP_PORT')

    def test_addresses_of_pools_are_no_members(self):
        address = str(ipaddress.ip_network(paths.nat_pools(2)[0])[0])
        _balancer, pool, _made = self.create_nat()
        self.refused('pool for NAT', self.sdk.create_member, pool,
                     address=address, protocol_port=80)
