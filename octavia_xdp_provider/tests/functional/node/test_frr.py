# SPDX-License-Identifier: Apache-2.0
"""The guide's example of FRR, run as it stands there, with two LB nodes.

ExaBGP and the announcer are real, and so is the kernel's table of routes.
"""

import json
import pathlib
import sys

from lab import namespaces
from lab import paths
from lab import processes
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp import exabgp_config
from octavia_xdp_provider.agent.bgp.route import Route
from octavia_xdp_provider.tests.functional.support import frr
from octavia_xdp_provider.tests.functional.support import hosts
from octavia_xdp_provider.tests.support import form

# The guide's addresses.
ROUTER, ROUTER_ADDRESS = 'router', '198.51.100.1'
NODES = {'lb1': '198.51.100.11', 'lb2': '198.51.100.12'}
NETWORKS = ('203.0.113.0/24', '2001:db8:113::/64')
VIP, OTHER = '203.0.113.10/32', '203.0.113.11/32'
VIP6 = '2001:db8:113::10/128'
FAMILIES = ('ipv4 unicast', 'ipv6 unicast')
GRACEFUL_SHUTDOWN = ('graceful-shutdown',)


class FrrCase(hosts.HostsCase):
    """The guide's router and LB nodes on one network."""

    SOON, LOOK = 90, 0.1
    daemons = ('bgpd',)

    def setUp(self):
        super().setUp()
        self.add_hosts(ROUTER, *NODES)
        namespaces.bridge(self.lab, ROUTER, 'nodes')
        self._address(ROUTER, 'nodes', ROUTER_ADDRESS)
        for node, address in NODES.items():
            namespaces.veth(self.lab, (node, 'eth0'), (ROUTER, node))
            namespaces.join_bridge(self.lab, ROUTER, 'nodes', node)
            self._address(node, 'eth0', address)
        self.router = self.start_frr(ROUTER, *self.daemons)
        self.router.configure(frr.example('FRR'))
        self.wanted = {node: self._announcements(node) for node in NODES}

    def _address(self, host, link, address):
        namespaces.address(self.lab, host, link, f'{address}/24')
        # The guide's [agent] next_hop_v6.
        namespaces.address(self.lab, host, link, f'{_v6(address)}/64')

    def start_frr(self, host, *daemons):
        directory = self.lab.run_directory / f'frr-{host}'
        directory.mkdir()
        return frr.Frr(self.lab, host, directory, *daemons)

    def _announcements(self, node):
        directory = self.lab.run_directory / node
        directory.mkdir()
        return announcements.Announcements(directory, NETWORKS)

    def announce(self, node, *routes):
        """Routes of a node, which it announces once its ExaBGP runs."""
        self.wanted[node].set([
            Route.parse(prefix, _v6(NODES[node]) if ':' in prefix else None,
                        communities=communities)
            for prefix, communities in routes])

    def start_exabgp(self, node):
        file = self.lab.run_directory / node / announcements.FILE_NAME
        config = self.lab.host_directory(node) / 'exabgp.conf'
        config.write_text(exabgp_config.render(
            NODES[node], [exabgp_config.Neighbour(
                local_address=NODES[node], local_as=65010,
                peer_address=ROUTER_ADDRESS, peer_as=65000,
                families=FAMILIES)],
            [sys.executable, '-m', 'octavia_xdp_provider.cmd.announcer',
             '--file', str(file), *(word for network in NETWORKS
                                    for word in ('--network', network))]))
        processes.start(
            self.lab, node, f'{node}-exabgp',
            [pathlib.Path(sys.executable).with_name('exabgp'), config],
            env={**exabgp_config.ENVIRONMENT, 'exabgp_daemon_user': 'root',
                 'PYTHONPATH': paths.CHECKOUT})

    def next_hops(self, prefix):
        """The nodes that the router's kernel sends packets to."""
        done = processes.run(self.lab, ROUTER, [
            'ip', '-json', '-6' if ':' in prefix else '-4', 'route', 'show',
            prefix])
        routes = json.loads(done.stdout or '[]')
        gateways = {hop.get('gateway') for route in routes
                    for hop in route.get('nexthops', [route])}
        return {node for node, address in NODES.items()
                if {address, _v6(address)} & gateways}

    def wait_next_hops(self, prefix, *nodes):
        self.wait(f'route to {prefix} through {nodes}',
                  lambda: self.next_hops(prefix) == set(nodes))

    def neighbour(self, node):
        """Return the state of a node's session in the router's bgpd."""
        shown = self.router.show('bgp', 'neighbors', NODES[node])
        return (shown or {}).get(NODES[node], {})


def _v6(address):
    return f'2001:db8:1::{address.rpartition(".")[2]}'


class TestGuide(FrrCase):

    def setUp(self):
        super().setUp()
        for node in NODES:
            self.announce(node, (VIP, ()), (VIP6, ()))
            self.start_exabgp(node)
        self.wait_next_hops(VIP, *NODES)
        self.wait_next_hops(VIP6, *NODES)

    def test_routes_follow_the_nodes_and_what_is_drained_is_a_last_resort(
            self):
        self.announce('lb2', (VIP, ()), (VIP6, ()), (OTHER, ()))
        self.wait_next_hops(OTHER, 'lb2')
        self.announce('lb1', (VIP, GRACEFUL_SHUTDOWN),
                      (VIP6, GRACEFUL_SHUTDOWN))
        self.wait_next_hops(VIP, 'lb2')
        self.wait_next_hops(VIP6, 'lb2')
        processes.stop(self.lab, 'lb2-exabgp')
        self.wait_next_hops(VIP, 'lb1')
        self.wait_next_hops(VIP6, 'lb1')
        self.wait_next_hops(OTHER)

    @form.in_long_form
    def test_nothing_but_vips_is_taken_and_nothing_is_sent(self):
        # A node that announces whatever it likes.
        processes.stop(self.lab, 'lb1-exabgp')
        config = self.lab.host_directory('lb1') / 'other.conf'
        config.write_text(f'''
neighbor {ROUTER_ADDRESS} {{
    router-id {NODES['lb1']};
    local-address {NODES['lb1']};
    local-as 65010;
    peer-as 65000;
    static {{
        route 0.0.0.0/0 next-hop self;
        route 203.0.113.0/24 next-hop self;
        route 203.0.113.64/26 next-hop self;
        route 192.0.2.10/32 next-hop self;
        route {OTHER} next-hop self;
    }}
}}
''')
        processes.start(
            self.lab, 'lb1', 'other-exabgp',
            [pathlib.Path(sys.executable).with_name('exabgp'), config],
            env={**exabgp_config.ENVIRONMENT, 'exabgp_daemon_user': 'root'})
        self.wait_next_hops(OTHER, 'lb1')
        shown = self.router.show('bgp', 'ipv4', 'unicast')
        self.assertEqual({VIP, OTHER}, set(shown['routes']))
        self.assertEqual(0, self.neighbour('lb2')['addressFamilyInfo'][
            'ipv4Unicast']['sentPrefixCounter'])


@form.in_long_form
class TestBfd(FrrCase):
    """ExaBGP knows no BFD: FRR's bfdd speaks it on the node, beside it."""

    daemons = ('bgpd', 'bfdd')

    def setUp(self):
        super().setUp()
        self.router.configure(frr.example('BFD on the router'))
        # Each node has its own address there; the guide has lb1's.
        node = frr.example('BFD on an LB node')
        for name, address in NODES.items():
            self.start_frr(name, 'bfdd').configure(
                node.replace(NODES['lb1'], address))
            self.announce(name, (VIP, ()))
            self.start_exabgp(name)
        self.wait_next_hops(VIP, *NODES)
        self.wait('BFD sessions', lambda: all(
            self.neighbour(node).get('peerBfdInfo', {}).get('status') == 'Up'
            for node in NODES))

    def test_a_node_that_is_cut_off_loses_its_routes_by_bfd(self):
        # Both links stay up: no carrier tells.
        processes.run(self.lab, ROUTER, ['ip', 'link', 'set', 'lb1',
                                         'nomaster'])
        self.wait_next_hops(VIP, 'lb2')
        self.assertEqual('Cease/BFD Down',
                         self.neighbour('lb1')['lastNotificationReason'])
        namespaces.join_bridge(self.lab, ROUTER, 'nodes', 'lb1')
        self.wait_next_hops(VIP, *NODES)
        # A node whose bfdd ends is served by BGP alone.
        before = self.neighbour('lb2')['connectionsDropped']
        processes.kill(self.lab, 'lb2-bfdd')
        self.wait('end of the BGP session', lambda: self.neighbour(
            'lb2')['connectionsDropped'] > before)
        self.wait_next_hops(VIP, *NODES)
        self.assertEqual('Down', self.neighbour('lb2')['peerBfdInfo'][
            'status'])
