# SPDX-License-Identifier: Apache-2.0
"""Packets of an unmodified client, from end to end and byte by byte."""

import json

from lab import processes
from lab.fabric import capture
from lab.fabric import client
from lab.fabric import links
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import router
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.e2e.support import shared

REQUESTS = 200
# On both nodes but for one time in 16 million.
CONNECTIONS = 24
CURL_PACKETS = 3  # SYN, ACK, request: the least that a request sends


class TestTraffic(shared.WebTestCase):

    def test_requests_pass_both_nodes_unchanged(self):
        captures = {node: capture.at_node(self.lab, node, 'ip')
                    for node in topology.NODES}
        with captures['lb1'], captures['lb2']:
            self.check_requests(REQUESTS)
        for node, taken in captures.items():
            self.check_node(node, taken.packets)

    def check_node(self, node, packets):
        """Return the packets that one node received and sent."""
        vip = self.balancer.vip_address
        received = [packet for packet in packets if packet.outgoing
                    and packet.destination == vip]
        self.assertGreater(len(received), REQUESTS // 10 * CURL_PACKETS)
        sent = [packet for packet in packets if not packet.outgoing
                and packet.protocol == capture.IPIP]
        self.assertEqual(len(received), len(sent))
        addresses = {members.address(member) for member in topology.MEMBERS}
        for packet in sent:
            self.assertEqual(nodes.address(node), packet.source)
            self.assertIn(packet.destination, addresses)
            self.check_outer(packet)
        # The inner packet equals the received one, to the last byte.
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

    def check_outer(self, packet):
        """The outer header of RFC 2003."""
        outer = packet.data[14:34]
        inner = packet.data[34:]
        self.assertEqual(0x45, outer[0])
        self.assertEqual(inner[1], outer[1])
        self.assertEqual(20 + int.from_bytes(inner[2:4], 'big'),
                         int.from_bytes(outer[2:4], 'big'))
        self.assertEqual(inner[6] & 0x40, outer[6])
        self.assertEqual(64, outer[8])
        words = sum(int.from_bytes(outer[i:i + 2], 'big')
                    for i in range(0, 20, 2))
        self.assertEqual(0xffff, (words & 0xffff) + (words >> 16))

    def test_full_size_packets_pass_both_ways(self):
        content = bytes(range(256)) * 4096
        for member in topology.MEMBERS:
            (members.files(self.lab, member) / 'large').write_bytes(content)
        url = self.url(self.balancer)
        for _ in range(8):
            body = client.curl(self.lab, url + 'large', '-w',
                               '%{size_download}', '-o', '/dev/null')
            self.assertEqual(str(len(content)), body)
        # Answered with 405 by nginx, after it has taken the whole body.
        upload = self.lab.directory / 'upload'
        upload.write_bytes(content)
        body = client.curl(self.lab, url, '--data-binary', f'@{upload}',
                           '-w', '%{size_upload}', '-o', '/dev/null')
        self.assertEqual(str(len(content)), body)

    def test_other_traffic_passes_untouched(self):
        """Packets to the node itself, and to a VIP's other port."""
        answers = client.requests(
            self.lab, self.url(self.balancer, 8080), 1, timeout=1)
        self.assertEqual(1, len(answers.failures))
        # BGP comes in through the same interface and program.
        self.assertEqual(sorted(topology.NODES), router.sessions(self.lab))


class TestStatistics(shared.WebTestCase):

    def test_statistics_are_what_both_nodes_forwarded_and_dropped(self):
        """Also the connections that are open, spread over both nodes."""
        forwarded = sum(self.sizes(self.use))
        total = REQUESTS + CONNECTIONS
        self.wait_statistics(forwarded, total, 0, 0)
        dropped = self.sizes(self.refuse)
        self.assertGreaterEqual(len(dropped), 20)
        self.wait_statistics(forwarded, total, len(dropped), 0)
        self.change_listener(allowed_cidrs=['192.0.2.0/24',
                                            '198.18.20.0/24'])
        self.check_requests(50)

    def sizes(self, act):
        """Return the packets to the VIP that reach each node meanwhile."""
        with capture.at_node(self.lab, 'lb1', 'tcp') as first, \
                capture.at_node(self.lab, 'lb2', 'tcp') as second:
            act()
        return [int.from_bytes(packet.data[16:18], 'big')
                for packet in first.packets + second.packets
                if packet.destination == self.balancer.vip_address]

    def wait_statistics(self, *wanted):
        self.wait(f'statistics {wanted}',
                  lambda: self.statistics() == wanted, interval=1)

    def statistics(self):
        """Bytes, connections so far, drops, and open connections."""
        stats = self.sdk.get(
            f'/lbaas/listeners/{self.listener.id}/stats').json()['stats']
        return (stats['bytes_in'], stats['total_connections'],
                stats['request_errors'], stats['active_connections'])

    def use(self):
        self.check_requests(REQUESTS)
        with client.Connections(self.lab, self.balancer.vip_address, 80,
                                CONNECTIONS) as connections:
            def shown():
                self.assertEqual(CONNECTIONS, connections.ask())
                return self.statistics()[3] == CONNECTIONS
            self.wait('active connections', shown, interval=1)
            on_nodes = []
            for node in topology.NODES:
                with self.datapath(node) as opened:
                    on_nodes.append(
                        opened.service(self.key(self.balancer)).active)
            self.assertEqual(CONNECTIONS, sum(on_nodes))
            self.assertTrue(all(on_nodes), on_nodes)

    def refuse(self):
        self.change_listener(allowed_cidrs=['192.0.2.0/24'])
        answers = client.requests(self.lab, self.url(self.balancer), 20,
                                  timeout=1)
        self.assertEqual(20, len(answers.failures))


class TestUdp(base.LabTestCase):

    def test_datagrams_reach_all_members(self):
        """At once where nothing monitors them."""
        balancer, _, pool, _ = self.create_web(
            port=members.UDP_PORT, protocol='UDP', monitor=None)
        self.assertEqual(dict.fromkeys(topology.MEMBERS, 'NO_MONITOR'),
                         self.statuses(pool))
        answers = client.udp(self.lab, balancer.vip_address,
                             members.UDP_PORT, 100)
        self.assertEqual([], answers.failures)
        self.assertEqual(set(topology.MEMBERS), set(answers.count))
