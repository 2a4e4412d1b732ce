# SPDX-License-Identifier: Apache-2.0
"""A hypervisor as in production: OVN, the kernel's Open vSwitch, taps that
are its ports, its own Geneve at the address and port of LB nodes' tunnels.

Needs a kernel with these, as Debian's are (tools/on-kernel).
"""

import socket
import uuid

from lab import namespaces
from octavia_xdp_provider.host import links
from octavia_xdp_provider.host import ovsdb
from octavia_xdp_provider.host import taps
from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import hypervisor
from octavia_xdp_provider.tests.functional.support import kernel_ovn
from octavia_xdp_provider.tests.functional.support import private_node

TIMES = 30
PEER, PEER_GATEWAY = '10.2.0.1', '10.2.0.254'
NEIGHBOR, NEIGHBOR6 = '192.168.7.6', 'fd00:7::6'
NEIGHBOR_MAC = 'fa:16:3e:00:00:06'
NEIGHBORS = {4: NEIGHBOR, 6: NEIGHBOR6}
# Security groups of the tenant's, as Neutron writes them: of what is not the
# VM's own, its neighbour alone may reach the server.
NETWORK = (
    'ls-add net', 'lr-add router',
    f'lrp-add router gateway {hypervisor.ROUTER_MAC} '
    f'{hypervisor.SUBNET_GATEWAY}/24 {hypervisor.SUBNET_GATEWAY6}/64',
    'lsp-add net to-router', 'lsp-set-type to-router router',
    'lsp-set-addresses to-router router',
    'lsp-set-options to-router router-port=gateway')
GROUP = (
    'acl-add group from-lport 1002 "inport == @group && ip" allow-related',
    'acl-add group to-lport 1001 "outport == @group && ip" drop',
    'acl-add group to-lport 1002 "outport == @group && ip4 && '
    f'ip4.src == {NEIGHBOR} && tcp.dst == {hypervisor.LOCAL}" allow-related',
    'acl-add group to-lport 1002 "outport == @group && ip6 && '
    f'ip6.src == {NEIGHBOR6} && tcp.dst == {hypervisor.LOCAL}" '
    'allow-related')


class KernelTestCase(hypervisor.HypervisorWithVm):
    """``switch``: Open vSwitch of the hypervisor."""

    def setUp(self):
        missing = kernel_ovn.missing()
        if missing:
            self.skipTest(missing)
        super().setUp()
        self.switch = kernel_ovn.Switch(self, self.member)

    def exchange_often(self):
        """Through a VIP of each family, both ways."""
        for version in hypervisor.FAMILIES:
            client, server = self.connect(self.listening[version], version)
            for _ in range(TIMES):
                self.exchange(client, server)

    def listen(self):
        self.listening = {version: self.server(self.vm, version)
                          for version in hypervisor.FAMILIES}

    def answered(self):
        """Packets of the VM's that left from a VIP."""
        return sum(entry.packets_out for entry in self.host.entries())


class TestOvn(KernelTestCase):

    def setUp(self):
        super().setUp()
        self.central = kernel_ovn.Central(self)
        self.switch.start_controller(self.central.south, fabric.OWN)
        self.switch.plug(self.vm.tap, self.vm.port)
        self.peer()
        self.central.change(*NETWORK, *self.port(
            self.vm.port, hypervisor.VM_MAC, hypervisor.FIXED,
            hypervisor.FIXED6), *self.port(
                self.neighbor_port, NEIGHBOR_MAC, NEIGHBOR, NEIGHBOR6),
            f'pg-add group {self.vm.port} {self.neighbor_port}', *GROUP)
        self.listen()

    @staticmethod
    def port(name, *addresses):
        text = ' '.join(addresses)
        return (f'lsp-add net {name}', f'lsp-set-addresses {name} "{text}"',
                f'lsp-set-port-security {name} "{text}"')

    def peer(self):
        """Another hypervisor without an agent, with a VM of the same network.

        The client's namespace is the router between both.
        """
        self.sysctl(self.client, ipv4__ip_forward=1)
        unique = uuid.uuid4().hex[:8]
        other, self.neighbor = f'oxh-p-{unique}', f'oxh-n-{unique}'
        self.neighbor_port = str(uuid.UUID(int=9 << 96))
        tap = taps.name_of(self.neighbor_port)
        private_node.add_namespaces(self, other, self.neighbor)
        private_node.veth((other, 'eth0'), (self.client, 'gw1'))
        private_node.veth((other, tap), (self.neighbor, 'eth0', NEIGHBOR_MAC),
                          'mtu', '1442')
        fabric.set_up(other, 'eth0', tap)
        for name, interface, addresses in (
                (other, 'eth0', [f'{PEER}/24']),
                (self.client, 'gw1', [f'{PEER_GATEWAY}/24']),
                (self.neighbor, 'eth0', [f'{NEIGHBOR}/24',
                                         f'{NEIGHBOR6}/64'])):
            fabric.ip(name, *fabric.added(interface, *addresses),
                      f'link set {interface} up')
        fabric.ip(other, f'route add default via {PEER_GATEWAY}')
        switch = kernel_ovn.Switch(self, other)
        switch.start_controller(self.central.south, PEER)
        switch.plug(tap, self.neighbor_port)

    def connect_directly(self, version):
        """The neighbour's end and the server's, through OVN."""
        family = hypervisor.FAMILIES[version][0]
        client = self.socket(self.neighbor, family, socket.SOCK_STREAM)
        client.connect((hypervisor.FAMILIES[version][2], hypervisor.LOCAL))
        accepted, peer = self.listening[version].accept()
        self.addCleanup(accepted.close)
        accepted.settimeout(120)
        self.assertEqual(NEIGHBORS[version], peer[0])
        return client, accepted

    def test_clients_pass_by_ovn_and_everything_else_through_it(self):
        for version in hypervisor.FAMILIES:
            self.exchange(*self.connect_directly(version))
        # The agent finds a tap that is a port of the kernel's Open vSwitch.
        database = ovsdb.Database(self.switch.remote)
        self.addCleanup(database.close)
        self.wait('interfaces', lambda: (
            database.run(), database.interfaces())[1])
        with namespaces.entered(self.member):
            found_links = links.Links()
        self.addCleanup(found_links.close)
        self.assertEqual(
            {self.vm.port: taps.Tap(self.vm.tap, self.vm.ifindex)},
            taps.find(database.interfaces(), found_links.links()))
        answered, seen = self.answered(), self.switch.packets()
        for self.sid in (False, True):
            self.exchange_often()
        answered = self.answered() - answered
        self.assertGreaterEqual(answered, 4 * TIMES)
        # Neighbours are looked for now and then.
        self.assertLess(self.switch.packets() - seen, TIMES)
        known = self.switch.connections()
        self.assertIn(f'src={NEIGHBOR},dst={hypervisor.FIXED}', known)
        self.assertIn(f'src={NEIGHBOR6},dst={hypervisor.FIXED6}', known)
        for address in (fabric.CLIENT, fabric.CLIENT6, fabric.VIP,
                        fabric.VIP6):
            self.assertNotIn(f'={address},', known)

    def test_open_vswitch_that_polices_and_restarts_takes_nothing(self):
        through = [self.connect(self.listening[version], version)
                   for version in hypervisor.FAMILIES]
        directly = [self.connect_directly(version)
                    for version in hypervisor.FAMILIES]
        # It keeps a qdisc of its own at the tap, and removes others'.
        self.switch.set('set', 'Interface', self.vm.tap,
                        'ingress_policing_rate=1000000')
        self.wait('its qdisc', lambda: 'ingress' in fabric.command(
            'tc', '-n', self.member, 'qdisc', 'show', 'dev', self.vm.tap))
        for ends in (*through, *directly):
            self.exchange(*ends)
        kernel_ovn.end(self.switch.switch)
        for ends in through:
            self.exchange(*ends)
        self.exchange_often()
        self.switch.start_switch()
        self.switch.set('set', 'Interface', self.vm.tap,
                        'ingress_policing_rate=0')
        for ends in through:
            self.exchange(*ends)
        self.exchange_often()
        self.central.change()
        for ends in directly:
            self.exchange(*ends)


class TestUnderlayInBridge(KernelTestCase):
    """The hypervisor's only NIC is a port of br-ex, which has its address."""

    def test_packets_of_lb_nodes_are_taken_before_the_bridge(self):
        bridge = 'br-ex'
        self.switch.set('add-br', bridge, '--', 'add-port', bridge, 'eth0')
        for address in f'{fabric.OWN}/24', f'{fabric.OWN6}/64':
            fabric.ip(self.member, f'address del {address} dev eth0',
                      *fabric.added(bridge, address))
        fabric.set_up(self.member, bridge)
        for gateway in fabric.GATEWAY, fabric.GATEWAY6:
            fabric.ip(self.member,
                      f'route replace default via {gateway} dev {bridge}',
                      f'neigh replace {gateway} dev {bridge} lladdr '
                      f'{fabric.GATEWAY_MAC}')
        with namespaces.entered(self.member):
            replies = socket.if_nametoindex(bridge)
        self.host.set_settings(self.host.settings()._replace(
            reply_ifindex=replies))
        self.listen()
        for self.sid in (False, True):
            self.exchange_often()
        self.assertGreaterEqual(self.answered(), 4 * TIMES)
        # The hypervisor's own traffic goes through the bridge.
        fabric.command('ip', 'netns', 'exec', self.client, 'ping', '-c', '1',
                       '-W', '60', fabric.OWN)
