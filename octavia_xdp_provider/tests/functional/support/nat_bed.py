# SPDX-License-Identifier: Apache-2.0
"""Two nodes with NAT, a client, and a member that nobody has prepared.

    client --- r === n1     r routes VIPs by n1 or n2, pools to their node,
               |  \\= n2     and everything else to where it is
             member
"""

import socket

from lab import namespaces
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import hosts

ROUTER, CLIENT, MEMBER = 'r', 'client', 'member'
NODES = ('n1', 'n2')
# Host → network of each family; r is the first there, the host the second.
NETWORKS = {CLIENT: ('198.51.100.', '2001:db8:c::'),
            MEMBER: ('198.18.1.', '2001:db8:11::'),
            'n1': ('198.51.101.', '2001:db8:1::'),
            'n2': ('198.51.102.', '2001:db8:2::')}
VIP = {4: '203.0.113.10', 6: '2001:db8:f::10'}
POOLS = {'n1': ('203.0.113.128/31', '2001:db8:40:1::/127'),
         'n2': ('203.0.113.130/31', '2001:db8:40:2::/127')}
PEERS = {4: ('203.0.113.128', '203.0.113.130'),
         6: ('2001:db8:40:1::', '2001:db8:40:2::')}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
PORT, LOCAL = 80, 8080
MTU = 1500


def address(host: str, family: int) -> str:
    return NETWORKS[host][family == 6] + '2'


class NatBed(hosts.HostsCase):

    def setUp(self):
        super().setUp()
        self.add_hosts(ROUTER)
        for host, networks in NETWORKS.items():
            self.add_behind(ROUTER, host, *(
                (f'{network}2', f'{network}1') for network in networks))
            self.fill_in(host, 'eth0', 'gro', 'off')
            self.fill_in(ROUTER, host, 'gro', 'off')
        namespaces.sysctl(self.lab, ROUTER, net__ipv4__ip_forward=1,
                          net__ipv6__conf__all__forwarding=1)
        self.mount_bpffs()
        # veth takes frames of XDP where the other end has a program, too: one
        # without services passes all.
        router = self.open(ROUTER)
        with namespaces.inside(self.lab, ROUTER):
            for name in NODES:
                router.attach(socket.if_nametoindex(name))
        self.nodes = {name: self._node(name) for name in NODES}
        for name, pools in POOLS.items():
            for pool in pools:
                self.route(pool, name)
        self.move_vips('n1')

    def route(self, prefix, node):
        self.ip(ROUTER, 'route', 'replace', prefix, 'via',
                address(node, 6 if ':' in prefix else 4))

    def move_vips(self, node):
        """Move routes as routers do when another node announces them."""
        for vip in VIP.values():
            self.route(vip, node)

    def socket(self, host, family, kind=socket.SOCK_STREAM):
        with namespaces.inside(self.lab, host):
            opened = socket.socket(FAMILY[family], kind)
        self.addCleanup(opened.close)
        opened.settimeout(self.SOON)
        return opened

    def serve(self, front, back, protocol='TCP', nodes=NODES):
        key = datapath.Key(VIP[front], protocol, PORT)
        for name in nodes:
            self.nodes[name].set_service(
                key, [datapath.Member(address(MEMBER, back), port=LOCAL)],
                datapath.Settings(slots=1009,
                                  flags=datapath.ServiceFlag.NAT))
        return key

    def leave_by_routes(self, name):
        """In place of the uplink that the node was given."""
        namespaces.sysctl(self.lab, name, net__ipv4__ip_forward=1,
                          net__ipv6__conf__all__forwarding=1)
        for network in NETWORKS[name]:
            self.ip(name, 'neigh', 'replace', f'{network}1', 'lladdr',
                    self.mac(ROUTER, name), 'dev', 'eth0', 'nud', 'permanent')
        self._set(name, self.nodes[name], datapath.NodeFlag.FIB)

    @staticmethod
    def _set(name, node, flags=0):
        node.set_node(datapath.NodeSettings(
            address(name, 4), address(name, 6), icmp_rate=1000,
            flags=datapath.NodeFlag.CLAMP_MSS | flags))

    def _node(self, name):
        node = self.open(name)
        with namespaces.inside(self.lab, name):
            index = socket.if_nametoindex('eth0')
            node.attach(index)
            hop = self.mac(ROUTER, name)
            node.set_uplinks([datapath.Uplink(
                index, MTU, self.mac(name, 'eth0'), hop, hop)])
        self._set(name, node)
        node.set_nat_pools(POOLS[name])
        return node
