# SPDX-License-Identifier: Apache-2.0
"""Packets of an unmodified client, from end to end and byte by byte."""

import ipaddress
import json

from lab import cloud
from lab import paths
from lab import processes
from lab.fabric import capture
from lab.fabric import client
from lab.fabric import links
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import router
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.models import maglev_model

# On both nodes but for one time in 16 million.
CONNECTIONS = 24
CURL_PACKETS = 3  # SYN, ACK, request: the least that a request sends


class TestTraffic(base.LabTestCase):

    def test_thousand_requests_pass_both_nodes_unchanged(self):
        balancer, *_ = self.create_web()
        captures = {node: capture.at_node(self.lab, node, 'ip')
                    for node in topology.NODES}
        with captures['lb1'], captures['lb2']:
            answers = client.requests(self.lab, self.url(balancer), 1000)
        self.assertEqual([], answers.failures)
        self.assertEqual(1000, sum(answers.count.values()))
        self.assertEqual(set(topology.MEMBERS), set(answers.count))
        for node, taken in captures.items():
            self.check_node(node, balancer, taken.packets)

    def check_node(self, node, balancer, packets):
        """What one node received and sent."""
        vip = balancer.vip_address
        received = [packet for packet in packets if packet.outgoing
                    and packet.destination == vip]
        self.assertGreater(len(received), 100 * CURL_PACKETS)
        sent = [packet for packet in packets if not packet.outgoing
                and packet.protocol == capture.IPIP]
        self.assertEqual(len(received), len(sent))
        addresses = {members.address(member) for member in topology.MEMBERS}
        for packet in sent:
            self.assertEqual(nodes.address(node), packet.source)
            self.assertIn(packet.destination, addresses)
        # What is inside is what came in, to the last byte.
        self.assertEqual(sorted(packet.data[14:] for packet in received),
                         sorted(packet.inner().data[14:] for packet in sent))
        # Answers do not pass an LB node, in neither direction.
        for packet in packets:
            inner = (packet.inner() if packet.protocol == capture.IPIP
                     else packet)
            self.assertNotEqual(vip, inner.source)
            self.assertNotEqual(vip, packet.source)

    def test_program_is_in_driver_mode(self):
        for node in topology.NODES:
            shown = processes.run(self.lab, node, [
                'ip', '-json', 'link', 'show', links.UPLINK]).stdout
            # 1 is XDP_ATTACHED_DRV of linux/if_link.h.
            self.assertEqual(1, json.loads(shown)[0]['xdp']['mode'])

    def test_statistics_count_what_both_nodes_forwarded_and_dropped(self):
        balancer, listener, *_ = self.create_web()

        def sizes(act):
            """Of the packets to the VIP that reach the nodes meanwhile."""
            with capture.at_node(self.lab, 'lb1', 'tcp') as one, \
                    capture.at_node(self.lab, 'lb2', 'tcp') as two:
                act()
            return [int.from_bytes(packet.data[16:18], 'big')
                    for packet in one.packets + two.packets
                    if packet.destination == balancer.vip_address]

        def statistics():
            found = self.sdk.get(
                f'/lbaas/listeners/{listener.id}/stats').json()['stats']
            return (found['bytes_in'], found['total_connections'],
                    found['request_errors'])

        def refused():
            self.sdk.update_listener(
                listener, allowed_cidrs=['192.0.2.0/24'])
            self.wait_active(balancer)
            client.requests(self.lab, self.url(balancer), 20, timeout=1)

        forwarded = sizes(lambda: client.requests(
            self.lab, self.url(balancer), 100))
        self.wait('statistics of both nodes', lambda: statistics() == (
            sum(forwarded), 100, 0), 40, 0.5)
        dropped = sizes(refused)
        self.assertGreaterEqual(len(dropped), 20)
        self.wait('drops of both nodes', lambda: statistics() == (
            sum(forwarded), 100, len(dropped)), 40, 0.5)

    def test_statistics_show_the_connections_that_are_open(self):
        """Of both nodes, over which the router spreads them."""
        balancer, listener, *_ = self.create_web()

        def shown():
            return self.sdk.get(f'/lbaas/listeners/{listener.id}/stats').json(
                )['stats']['active_connections']

        def wait_shown(number):
            def asked_and_shown():
                self.assertEqual(number, connections.ask())
                return shown() == number
            self.wait(f'{number} active connections', asked_and_shown, 120,
                      1)
            for words in (('stats', 'show', balancer.name),
                          ('listener', 'stats', 'show', listener.name)):
                printed = cloud.openstack(self.lab, 'loadbalancer', *words)
                self.assertEqual(number, int(printed['active_connections']))
                self.assertEqual(number, connections.ask())

        self.assertEqual(0, shown())
        with client.Connections(self.lab, balancer.vip_address, 80,
                                CONNECTIONS) as connections:
            wait_shown(CONNECTIONS)
            on_nodes = []
            for node in topology.NODES:
                with self.datapath(node) as opened:
                    on_nodes.append(
                        opened.service(self.key(balancer)).active)
            self.assertEqual(CONNECTIONS, sum(on_nodes))
            self.assertTrue(all(on_nodes), on_nodes)
            connections.close(CONNECTIONS // 3)
            wait_shown(CONNECTIONS - CONNECTIONS // 3)
        self.wait('no active connection', lambda: shown() == 0, 120, 1)

    def test_outer_headers_at_a_member_follow_rfc_2003(self):
        balancer, *_ = self.create_web(hosts=['member1'])
        with capture.at_member(self.lab, 'member1', 'ip') as taken:
            answers = client.requests(self.lab, self.url(balancer), 50)
        self.assertEqual([], answers.failures)
        vip = balancer.vip_address
        arrived = [packet for packet in taken.packets if packet.outgoing
                   and packet.protocol == capture.IPIP]
        self.assertGreaterEqual(len(arrived), 50 * CURL_PACKETS)
        self.assertEqual(set(map(nodes.address, topology.NODES)),
                         {packet.source for packet in arrived})
        for packet in arrived:
            self.assertEqual(members.address('member1'), packet.destination)
            inner = packet.inner()
            self.assertEqual((paths.CLIENT_ADDRESS, vip),
                             (inner.source, inner.destination))
            self.check_outer(packet)
        answered = [packet for packet in taken.packets
                    if not packet.outgoing and packet.source == vip]
        self.assertGreaterEqual(len(answered), 50 * CURL_PACKETS)
        self.assertEqual({paths.CLIENT_ADDRESS},
                         {packet.destination for packet in answered})

    def check_outer(self, packet):
        """The outer header of RFC 2003, as the first router leaves it."""
        outer = packet.data[14:34]
        inner = packet.data[34:]
        self.assertEqual(0x45, outer[0])
        self.assertEqual(inner[1], outer[1])
        self.assertEqual(20 + int.from_bytes(inner[2:4], 'big'),
                         int.from_bytes(outer[2:4], 'big'))
        self.assertEqual(inner[6] & 0x40, outer[6])
        self.assertEqual(63, outer[8])
        words = sum(int.from_bytes(outer[i:i + 2], 'big')
                    for i in range(0, 20, 2))
        self.assertEqual(0xffff, (words & 0xffff) + (words >> 16))

    def test_udp_reaches_all_members(self):
        balancer, *_ = self.create_web(
            port=members.UDP_PORT, protocol='UDP', monitor=None)
        answers = client.udp(self.lab, balancer.vip_address,
                             members.UDP_PORT, 200)
        self.assertEqual([], answers.failures)
        self.assertEqual(set(topology.MEMBERS), set(answers.count))

    def test_full_size_packets_pass_both_ways(self):
        """Full-size packets both ways."""
        balancer, *_ = self.create_web()
        content = bytes(range(256)) * 4096
        for member in topology.MEMBERS:
            (members.files(self.lab, member) / 'large').write_bytes(content)
        for _ in range(8):
            body = client.curl(
                self.lab, self.url(balancer) + 'large', '-w',
                '%{size_download}', '-o', '/dev/null')
            self.assertEqual(str(len(content)), body)
        # Answered with 405 by nginx, after it has taken the whole body.
        upload = self.lab.directory / 'upload'
        upload.write_bytes(content)
        body = client.curl(
            self.lab, self.url(balancer), '--data-binary', f'@{upload}',
            '-w', '%{size_upload}', '-o', '/dev/null')
        self.assertEqual(str(len(content)), body)

    def test_tables_of_both_nodes_equal_the_model(self):
        balancer, _, pool, made = self.create_web(hosts=topology.MEMBERS[:2])
        weights = {'member1': 1, 'member2': 7}
        for host, weight in weights.items():
            self.sdk.update_member(made[host], pool, weight=weight)
            self.wait_active(balancer)
        self.assert_tables(balancer, weights)
        made['member3'] = self.create_member(pool, 'member3', weight=3)
        self.wait_active(balancer)
        weights['member3'] = 3
        self.wait_enabled(balancer, 3)
        self.assert_tables(balancer, weights)
        # The same members in another order of events: the same table.
        self.sdk.delete_member(made['member1'], pool)
        self.wait_active(balancer)
        del weights['member1']
        self.assert_tables(balancer, weights)

    def assert_tables(self, balancer, weights):
        by_address = {str(ipaddress.ip_address(members.address(host))): weight
                      for host, weight in weights.items()}
        model = maglev_model.populate(
            by_address, maglev_model.slot_count(by_address))
        for node in topology.NODES:
            with self.datapath(node) as opened:
                self.assertEqual(model, opened.table(self.key(balancer)),
                                 node)
                self.assertEqual([], opened.faults())

    def test_other_traffic_passes_untouched(self):
        """Packets to the node itself, and to a VIP's other port."""
        balancer, *_ = self.create_web()
        answers = client.requests(self.lab, self.url(balancer, 8080), 1,
                                  timeout=1)
        self.assertEqual(1, len(answers.failures))
        # BGP comes in through the same interface and program.
        self.assertEqual(sorted(topology.NODES), router.sessions(self.lab))
