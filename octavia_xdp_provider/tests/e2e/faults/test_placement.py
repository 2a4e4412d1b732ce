# SPDX-License-Identifier: Apache-2.0
"""Where load balancers and their VIPs may be, and how they move."""

import json
import threading

from lab import cloud
from lab.fabric import client
from lab.fabric import members
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base

OTHER = topology.NODES[1]


class PlacementCase(base.LabTestCase):

    def setUp(self):
        super().setUp()
        self.admin = self.connection(cloud.ADMIN)

    def create(self, **more):
        """A load balancer with a listener and all members."""
        balancer = self.create_balancer(listeners=self.listeners(
            {'name': host, 'protocol_port': 80,
             'address': members.address(host)}
            for host in topology.MEMBERS), **more)
        self.add_vip(balancer)
        return balancer

    def holders(self, balancer, port=80):
        """Nodes that have the service."""
        hosts = set()
        for node in topology.NODES:
            with self.datapath(node) as opened:
                if opened.service(self.key(balancer, port=port)):
                    hosts.add(node)
        return hosts

    def check(self, balancer, port=80, number=50):
        answers = client.requests(self.lab, self.url(balancer, port), number)
        self.assertEqual([], answers.failures)
        self.assertEqual(set(topology.MEMBERS), set(answers.count))


class TestFailover(PlacementCase):

    def test_failover_announces_the_new_node_before_the_old_one_leaves(self):
        balancer = self.create(flavor_id=self.create_flavor(replicas=1))
        self.wait('one route', lambda: len(self.next_hops(balancer)) == 1)
        before, = self.holders(balancer)
        after, = set(topology.NODES) - {before}
        self.check(balancer)
        stop, seen = threading.Event(), []

        def watch():
            while not stop.is_set():
                seen.append(len(self.next_hops(balancer)))
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            self.admin.load_balancer.failover_load_balancer(balancer.id)
            self.wait_active(balancer)
            self.wait_routes(balancer, hosts=[after])
        finally:
            stop.set()
            watcher.join()
        # There always was a way.
        self.assertNotIn(0, seen)
        self.wait('end of the old service',
                  lambda: self.holders(balancer) == {after})
        self.check(balancer)


class TestZones(PlacementCase):

    def create_zone(self, **data):
        admin = self.admin.load_balancer
        profile = admin.create_availability_zone_profile(
            name=self.unique('profile'), provider_name='xdp',
            availability_zone_data=json.dumps(data))
        self.addCleanup(admin.delete_availability_zone_profile, profile)
        zone = admin.create_availability_zone(
            name=self.unique('zone'), is_enabled=True,
            availability_zone_profile_id=profile.id)
        self.addCleanup(admin.delete_availability_zone, zone.name)
        return zone.name

    def register(self, node, zone):
        self.addCleanup(self.manage, 'node', 'zone', node)
        self.manage('node', 'zone', node, zone)

    def test_a_load_balancer_is_on_nodes_of_its_zone_only(self):
        self.register(OTHER, 'east')
        balancer = self.create(
            availability_zone=self.create_zone(zone='east'))
        self.wait_routes(balancer, hosts=[OTHER])
        self.assertEqual({OTHER}, self.holders(balancer))
        self.check(balancer)

    def test_required_zone_is_left_and_taken_again(self):
        for node, zone in zip(topology.NODES, ('east', 'west'), strict=True):
            self.register(node, zone)
        balancer = self.create(flavor_id=self.create_flavor(
            replicas=2, spread='require'))
        self.wait_routes(balancer)
        self.addCleanup(self.manage, 'zone', 'enable', 'west')
        self.manage('zone', 'drain', 'west', '--now', '--wait')
        self.wait_routes(balancer, hosts=topology.NODES[:1])
        self.check(balancer)
        row, = self.managed('lb', 'list', '--problems')
        self.assertEqual((balancer.id, 'too few zones'),
                         (row['id'], row['state']))
        self.assertIn('the node is draining', row['problems'][0])
        self.manage('zone', 'enable', 'west')
        self.wait_routes(balancer)
        self.check(balancer)
