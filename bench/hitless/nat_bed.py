# SPDX-License-Identifier: Apache-2.0
"""The bed with NAT: unprepared servers of both IP versions, on another port
than the VIP's, and nodes with pools that hand on packets of each other's
flows.
"""

from bench.hitless import bed
from lab import paths
from lab import processes
from lab.fabric import links
from lab.fabric import members
from lab.fabric import nodes
from octavia_xdp_provider.api import nat
from octavia_xdp_provider.node import datapath

MEMBER_PORT = 8080
# Far longer than a node keeps flows of closed connections.
FLOWS_END_S = 60


def pools(node):
    return paths.nat_pools(paths.number(node))


class NatNode(bed.Node):
    """:param peers: addresses of all nodes' pools; if empty, nodes do not hand
    on packets.
    """

    def __init__(self, lab, name, libraries, peers):
        self._peers = peers
        super().__init__(lab, name, bed.SIZES, libraries)

    def _open(self):
        opened = super()._open()
        opened.set_nat_pools(pools(self.name))
        opened.set_nat_peers(self._peers)
        return opened

    def client_ports(self):
        """Return the client ports of its connections."""
        flows, _count = self.datapath.nat_flows()
        return {flow.client_port for flow in flows
                if flow.state != datapath.NatState.TIME_WAIT}

    def flows_of(self, client_port):
        flows, _count = self.datapath.nat_flows()
        return [flow for flow in flows if flow.client_port == client_port]

    def handed_on(self):
        return self.datapath.outcomes()[
            datapath.Outcome.NAT_HANDED_ON].packets


class NatBed(bed.Bed):
    """A bed with NAT. ``hands_on``: whether nodes are peers."""

    def __init__(self, node_count, member_count, libraries, hands_on):
        super().__init__(
            node_count, member_count,
            datapath.Settings(flags=datapath.ServiceFlag.NAT), libraries)
        self._hands_on = hands_on
        self._handed_on_before = 0  # by nodes before they were booted

    def _create_member(self, member):
        members.create(self.lab, member, udp=False, prepared=False)

    def _create_node(self, name):
        # In the form that controllers send to agents.
        peers = nat.peers({other: {'nat': {'pools': pools(other)}}
                           for other in self._node_names})
        node = NatNode(self.lab, name, self._libraries, [
            peer['address'] for peer in peers if self._hands_on])
        for pool in pools(name):
            processes.run(self.lab, links.ROUTER, [
                'ip', 'route', 'replace', pool, 'via',
                nodes.address(name, 6 if ':' in pool else 4), 'dev', name])
        return node

    def member(self, name, weight):
        number = paths.number(name)
        return datapath.Member(
            members.address(name, 4 if number % 2 else 6), weight,
            check=number, port=MEMBER_PORT)

    def handed_on(self):
        """Return packets that reached a node without their flow."""
        return self._handed_on_before + sum(
            node.handed_on() for node in self.nodes)

    def flows_of(self, client_port):
        """Return flows from a port of the client, by node."""
        every = {node.name: node.flows_of(client_port) for node in self.nodes}
        return {name: flows for name, flows in every.items() if flows}

    def boot(self, node):
        self._handed_on_before += node.handed_on()
        super().boot(node)

    def wait_for_end_of_flows(self, node):
        """Wait until the node has no flows, if FINs from peers reach it."""
        if not self._hands_on:
            return
        processes.wait_for(
            f'the end of the flows of {node.name}',
            lambda: not node.client_ports(), FLOWS_END_S, 0.2)
