# SPDX-License-Identifier: Apache-2.0
"""Load balancers with forwarding nat, on nodes that have pools."""

from lab import paths
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.node import types
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.e2e.support import shared

HOSTS = ('member1', 'member2')
PORT = 8080  # of members; the listener has 80


class NatTestCase(shared.Shared):
    """Tests share the nodes' pools, and what ``share_balancer`` makes."""

    def share(self):
        for node in topology.NODES:
            self.reconfigure(nodes.nat_options(node), node)
        for node in topology.NODES:
            self.wait(f'pools of {node}', lambda node=node: (
                self.pools(node) == paths.nat_pools(paths.number(node))))
        return self.share_balancer()

    def share_balancer(self):
        """What is shared beside the pools; by default nothing."""
        return ()

    def state(self, node):
        """What a node reports of its NAT."""
        reported, = (row.state for row in self.store().nodes.all()
                     if row.host == node)
        return (reported or {}).get('nat') or {}

    def pools(self, node):
        return self.state(node).get('pools')

    def create_nat(self, version=4, member_version=4, protocol='TCP',
                   port=80, member_port=PORT, monitor='HTTP',
                   delay=base.DELAY, **flavor):
        """A load balancer of which no member knows anything.

        :returns: (balancer, pool, name → member).
        """
        balancer = self.create_balancer(
            version, flavor_id=self.create_flavor(forwarding='nat', **flavor),
            listeners=self.listeners(
                ({'name': host, 'protocol_port': member_port,
                  'address': members.address(host, member_version)}
                 for host in HOSTS), port, protocol, monitor, delay=delay))
        pool, = self.sdk.pools(loadbalancer_id=balancer.id)
        made = {member.name: member for member in self.sdk.members(pool)}
        replicas = flavor.get('replicas', len(topology.NODES))
        self.wait('routes', lambda: (
            len(self.next_hops(balancer)) == replicas))
        self.wait('members that take traffic', lambda: sorted(
            self.enabled(node, balancer, protocol, port)
            for node in topology.NODES)[-replicas:]
            == [len(HOSTS)] * replicas)
        return balancer, pool, made

    def drain(self, node):
        self.addCleanup(self.manage, 'node', 'enable', node)
        self.manage('node', 'drain', node)

    def has_flow(self, node, port):
        """Whether a node has a flow of the client's port."""
        with self.datapath(node) as opened:
            return opened.nat_flows(
                client=paths.CLIENT_ADDRESS, client_port=port)[1] == 1

    def handed_on(self, node):
        with self.datapath(node) as opened:
            return opened.outcomes()[types.Outcome.NAT_HANDED_ON].packets
