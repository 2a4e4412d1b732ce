# SPDX-License-Identifier: Apache-2.0
"""Members that nobody prepares: load balancers with forwarding nat."""

import hashlib
import ipaddress
import os

from lab import cloud
from lab import paths
from lab.control import octavia as lab_octavia
from lab.fabric import capture
from lab.fabric import client
from lab.fabric import connections
from lab.fabric import download
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import router
from lab.fabric import topology
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.tests.e2e.support import nat
from octavia_xdp_provider.tests.support import form

HOSTS = nat.HOSTS
FILE = 'nat-large'
SHORT_BYTES = 1 << 20
FILE_BYTES = 8 << 20
LONG_BYTES = 48 << 20  # more than the client takes before it reads


class ServedCase(nat.NatTestCase):

    def serve(self, size):
        """Give both members one large file; its SHA-256."""
        content = os.urandom(size)
        for host in HOSTS:
            path = members.files(self.lab, host) / FILE
            path.write_bytes(content)
            self.addCleanup(path.unlink, missing_ok=True)
        return hashlib.sha256(content).hexdigest()

    def check_requests(self, balancer, number=100):
        answers = client.requests(self.lab, self.url(balancer), number)
        self.assertEqual([], answers.failures)
        self.assertEqual(number, sum(answers.count.values()))
        self.assertEqual(set(HOSTS), set(answers.count))

    def check_download(self, balancer):
        checksum = self.serve(SHORT_BYTES)
        with self.download(balancer) as download:
            self.assertEqual(200, download.status)
        self.assertEqual((None, SHORT_BYTES, checksum),
                         (download.problem, download.moved, download.checksum))

    def download(self, balancer):
        return download.Download(self.lab, balancer.vip_address, 80,
                                 f'/{FILE}')


class TestNat(ServedCase):

    def setUp(self):
        super().setUp()
        self.balancer, self.pool, self.made = self.shared

    def share_balancer(self):
        return self.create_nat()

    def statistics(self, balancer):
        """Bytes in and out, connections so far, open ones."""
        statistics = self.sdk.get_load_balancer_statistics(balancer.id)
        return (statistics.bytes_in, statistics.bytes_out,
                statistics.total_connections, statistics.active_connections)

    def test_clients_reach_servers_on_another_port_and_all_is_counted(self):
        balancer, *_ = self.create_nat()
        with capture.at_node(self.lab, 'lb1', 'tcp') as first, \
                capture.at_node(self.lab, 'lb2', 'tcp') as second:
            self.check_requests(balancer)
            self.check_download(balancer)
            # Until the last packets of all connections have passed.
            self.wait('no active connection', lambda: self.statistics(
                balancer)[2:] == (101, 0), interval=1)
        sizes = {True: 0, False: 0}
        for packet in first.packets + second.packets:
            # What comes to the node leaves the router's end.
            if balancer.vip_address in (packet.source, packet.destination):
                sizes[packet.destination == balancer.vip_address] += (
                    int.from_bytes(packet.data[16:18], 'big'))
        wanted = (sizes[True], sizes[False], 101, 0)
        self.wait(f'statistics {wanted}', lambda: self.statistics(
            balancer) == wanted, interval=1)
        # Members see pools, and nothing is wrapped.
        pools = {str(address) for address in ipaddress.ip_network(
            paths.nat_pools(1)[0])}
        self.assertGreater(len([
            packet for packet in first.packets if not packet.outgoing
            and packet.destination in {members.address(host)
                                       for host in HOSTS}
            and packet.source in pools]), 50)

    def test_flows_survive_the_death_of_agents(self):
        """An open connection is active meanwhile, and its node not deleted.
        """
        checksum = self.serve(FILE_BYTES)
        with self.download(self.balancer) as download:
            self.wait('an active connection', lambda: (
                self.statistics(self.balancer)[3] == 1))
            self.wait('a flow of the project', lambda: sum(
                flows for node in topology.NODES
                for flows in self.state(node)['projects'].values()) == 1)
            self.check_is_not_deleted(*(
                node for node in topology.NODES
                if self.has_flow(node, download.port)))
            with client.Load(self.lab, self.url(self.balancer)) as load:
                for node in topology.NODES:
                    self.killed(node, nodes.AGENT)
                self.wait('requests meanwhile',
                          lambda: load.answers.total > 20)
                for node in topology.NODES:
                    self.started(node, nodes.AGENT)
                # Until they have carried out something.
                for weight in 2, 1:
                    self.sdk.update_member(self.made['member1'], self.pool,
                                           weight=weight)
                    self.wait_active(self.balancer)
        self.assertEqual((None, checksum),
                         (download.problem, download.checksum))
        self.assertEqual([], load.answers.failures)

    def check_is_not_deleted(self, node):
        self.addCleanup(lab_octavia.register_node, self.lab, node)
        with self.assertRaises(paths.LabError) as refused:
            self.manage('node', 'delete', node)
        self.assertIn('has 1 NAT flows', str(refused.exception))
        self.assertEqual(1, self.state(node)['flows'])

    def test_nodes_share_the_limit_of_connections(self):
        listener, = self.sdk.listeners(load_balancer_id=self.balancer.id)

        def limit(number):
            self.sdk.update_listener(listener.id, connection_limit=number)
            self.wait_active(self.balancer)

        def services():
            services = []
            for node in topology.NODES:
                with self.datapath(node) as opened:
                    services.append(opened.service(self.key(self.balancer)))
            return services

        def shares():
            return sorted(service.settings.connection_limit
                          for service in services())
        self.addCleanup(limit, -1)
        self.wait('no connection', lambda: not any(
            service.active for service in services()))
        limit(10)
        self.wait('shares of all nodes', lambda: sum(shares()) == 10)
        self.assertLessEqual(shares()[-1] - shares()[0], 1)
        with connections.Connections(
                self.lab, self.balancer.vip_address, number=1) as held:
            held.ask()
            self.assertEqual(1, sum(service.open_connections
                                    for service in services()))
        limit(-1)
        self.wait('no limit', lambda: not any(shares()))
        self.check_requests(self.balancer)


@form.in_long_form
class TestOthers(ServedCase):
    """Load balancers of other kinds, and their end."""

    def test_a_node_is_drained_under_a_download(self):
        """The node that takes its place hands the client's packets on."""
        balancer, *_ = self.create_nat(replicas=1)
        checksum = self.serve(LONG_BYTES)
        vip = balancer.vip_address
        old, = router.announced_by(self.lab, vip)
        new, = set(topology.NODES) - {old}
        before = self.handed_on(new)
        with self.download(balancer) as download, \
                client.Load(self.lab, self.url(balancer), pause=0.1) as load:
            self.assertTrue(self.has_flow(old, download.port))
            self.drain(old)
            self.wait('end of the announcement', lambda: (
                router.announced_by(self.lab, vip) == [new]))
            self.wait('packets that are handed on', lambda: (
                self.handed_on(new) > before + 100))
            # Past the time after which a node without flows is left.
            self.sleep(2 * decision.FLOWS_SETTLE_S)
            self.assertEqual((True, False), (
                self.has_flow(old, download.port),
                self.has_flow(new, download.port)))
        self.assertEqual((None, LONG_BYTES, checksum),
                         (download.problem, download.moved, download.checksum))
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
