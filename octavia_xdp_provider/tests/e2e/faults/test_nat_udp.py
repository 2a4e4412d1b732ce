# SPDX-License-Identifier: Apache-2.0
"""UDP flows by NAT, which nodes keep while they are moved on purpose."""

import ipaddress

from lab import paths
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import topology
from lab.fabric import udp_flows
from octavia_xdp_provider.tests.e2e.support import nat
from octavia_xdp_provider.tests.support import form

PORT = 53


@form.in_long_form
class TestUdp(nat.NatTestCase):

    def create(self, **flavor):
        balancer, *_ = self.create_nat(
            protocol='UDP', port=PORT, member_port=members.UDP_PORT,
            monitor='UDP-CONNECT', delay=4, **flavor)  # Octavia's least
        return balancer

    def go_on(self, flows, rounds=5):
        """Wait until all flows were asked so often from now on."""
        until = flows.rounds + rounds + 1
        self.wait(f'{rounds} rounds', lambda: flows.rounds >= until)

    def owned(self, flows, node):
        """The client's ports whose flows a node has."""
        return {port for port in flows.ports if self.has_flow(node, port)}

    def check(self, flows):
        """Members have seen one and the same client all the time."""
        self.assertEqual([], [seen for seen in flows.seen if len(seen) != 1])
        pools = [ipaddress.ip_network(paths.nat_pools(paths.number(node))[0])
                 for node in topology.NODES]
        for seen in flows.seen:
            _member, address, _port = next(iter(seen)).split()
            address = ipaddress.ip_address(address).ipv4_mapped
            self.assertTrue(any(address in pool for pool in pools), address)

    def drain(self, node):
        """A node begins to drain, long after anything else was changed."""
        for name in topology.NODES:
            with self.datapath(name) as opened:
                opened.seek_udp(0)
        super().drain(node)

    def restart_agents(self):
        """Those that know since when something is wanted are killed."""
        for node in topology.NODES:
            self.killed(node, nodes.AGENT)
        for node in topology.NODES:
            self.started(node, nodes.AGENT)

    def test_flows_outlive_a_drain_of_their_node_and_its_end(self):
        """Routers take the other node meanwhile, which has the VIP too."""
        balancer = self.create()
        with udp_flows.UdpFlows(self.lab, balancer.vip_address,
                                PORT) as flows:
            self.go_on(flows)
            began = {node: self.owned(flows, node)
                     for node in topology.NODES}
            self.assertEqual(sorted(flows.ports),
                             sorted(began['lb1'] | began['lb2']))
            self.assertTrue(began['lb1'] and began['lb2'], began)
            for node, other in topology.NODES, topology.NODES[::-1]:
                before = self.handed_on(other)
                self.drain(node)
                if node == 'lb2':
                    self.restart_agents()
                self.wait_routes(balancer, [other])
                self.go_on(flows)
                self.check(flows)
                self.assertGreater(self.handed_on(other), before)
                self.manage('node', 'enable', node)
                self.wait_routes(balancer)
                self.go_on(flows)
                self.check(flows)
            self.assertEqual(began, {node: self.owned(flows, node)
                                     for node in topology.NODES})
