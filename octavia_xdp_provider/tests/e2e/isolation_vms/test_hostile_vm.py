# SPDX-License-Identifier: Apache-2.0
"""A tenant's VMs that send all that they can, beside another tenant's.

Each hypervisor has a VM of either; both tenants chose the same addresses. What
the VMs send comes to the product's program at their taps, and goes no further;
the same is sent by a VM on the provider network, without port security. How
much slower the neighbour gets is in ``build/isolation.json``.
"""

import collections
import contextlib
import dataclasses
import itertools
import json
import shutil
import statistics
import time

from lab import namespaces
from lab import paths
from lab import processes
from lab.fabric import capture
from lab.fabric import client
from lab.fabric import connections
from lab.fabric import links
from lab.fabric import members
from lab.fabric import nginx
from lab.fabric import nodes
from lab.fabric import topology
from lab.ovn import host_agents
from lab.ovn import hypervisors
from lab.ovn import vms
from octavia_xdp_provider.tests.e2e.support import figures
from octavia_xdp_provider.tests.e2e.support import hostile_vm
from octavia_xdp_provider.tests.e2e.support import strangers
from octavia_xdp_provider.tests.e2e.support import zero_touch

# Packets a second, of each sender.
VM_RATE = 1000
FLOOD_RATE = 1000
FLOWS_RATE = 3000
# Confirmed flows for which a hypervisor has twice as many places; of which
# one port fills three quarters at most.
FLOWS_MAX = 4096
FULL = FLOWS_MAX
CONNECTIONS = 30
CHANGES = 6
REQUESTS = 200

OUTSIDER = 'outsider'
OUTSIDERS_ADDRESS = str(paths.PROVIDER_NETWORK[50])

# Of what hostile VMs send (hostile_vm.py) nothing must reach the neighbour's
# VMs, nor, as if it came from the neighbour's VIP, the client; but for what
# any host that the fabric lets send so could send as well: to the VIP as a
# client of it, or as a router on the way to one, …
AS_ANYBODY = {
    "a SYN to the neighbour's VIP",
    *(f'a client sends {flags}' for flags in ('R', 'FA', 'PA')),
    *(f'{error}, to the VIP' for error in (
        'too big', 'unreachable port', 'unreachable protocol',
        'no time left'))}
# … and from the VIP where the fabric lets such addresses out of the provider
# network.
AS_THE_VIP = {'the VIP resets a client', 'the VIP sends data to a client',
              'later fragments from the VIP'}
MAY_REACH = {('VMs', OUTSIDER): {
    kind + suffix for kind in AS_ANYBODY for suffix in ('', ', to its MAC')},
    ('client', OUTSIDER): AS_THE_VIP}


class TestHostileVm(zero_touch.ZeroTouchTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for host in hypervisors.NAMES:
            cls.addClassCleanup(cls._make_tables, host)
            cls._make_tables(host, flows_max=FLOWS_MAX)

    @classmethod
    def _make_tables(cls, host, **options):
        """Let a hypervisor begin with tables of another size."""
        processes.stop(cls.lab, host_agents.name(host))
        shutil.rmtree(host_agents.pin_directory(cls.lab, host),
                      ignore_errors=True)
        host_agents.write_configuration(
            cls.lab, host, host_agents.ENCAPSULATIONS[host], **options)
        host_agents.start(cls.lab, host)

    def setUp(self):
        super().setUp()
        self.keep_to_the_manual()
        self.make_outsider()
        for host in hypervisors.NAMES:
            self.keep_from_open_vswitch(host)
        self.web = self.balancer('blue')
        self.mine = self.sdk
        self.pool, = self.mine.pools(loadbalancer_id=self.web.id)
        self.made = {member.name: member
                     for member in self.mine.members(self.pool)}
        self.rows = self.entries(self.web)

    def keep_to_the_manual(self):
        """The fabric lets no VM send from networks of LB nodes and of
        hypervisors."""
        for network in paths.UPLINK_NETWORK, paths.HYPERVISOR_NETWORK:
            rule = ['iif', hypervisors.PROVIDER_SWITCH, 'from', str(network),
                    'blackhole']
            processes.run(self.lab, links.ROUTER, ['ip', 'rule', 'add', *rule])
            self.addCleanup(processes.run, self.lab, links.ROUTER,
                            ['ip', 'rule', 'del', *rule])

    def keep_from_open_vswitch(self, host):
        """Let what the hostile VM sends end behind the product's program at
        its tap, where it would come to Open vSwitch.

        Whose user space ends at such packets in a moment, by a failed
        assertion in its connection tracking (3.1, conn_update_state()). What
        it would let out sends self.outsider.
        """
        vm = self.vms['red', host]
        tap, _bridge, inner, _outer = vms.names(self.ports[vm].id)
        for port in tap, inner:
            self.set_isolated(host, port, 'on')
            self.addCleanup(self.set_isolated, host, port, 'off')
        # It is not asked for any more.
        processes.run(self.lab, vm, [
            'ip', 'neighbour', 'replace', self.gateway()[0], 'lladdr',
            self.gateway()[1], 'dev', vms.NIC, 'nud', 'permanent'])

    def set_isolated(self, host, port, value):
        processes.run(self.lab, host, [
            'ip', 'link', 'set', port, 'type', 'bridge_slave', 'isolated',
            value])

    def make_outsider(self):
        """A VM on the provider network: nobody changes what it sends."""
        namespaces.create(self.lab, OUTSIDER)
        self.addCleanup(namespaces.delete, self.lab, OUTSIDER)
        links.cable(self.lab, (OUTSIDER, vms.NIC), (links.ROUTER, OUTSIDER),
                    hypervisors.MTU)
        namespaces.join_bridge(self.lab, links.ROUTER,
                               hypervisors.PROVIDER_SWITCH, OUTSIDER)
        namespaces.address(self.lab, OUTSIDER, vms.NIC, (
            f'{OUTSIDERS_ADDRESS}/{paths.PROVIDER_NETWORK.prefixlen}'))

    def test_a_neighbour_loses_nothing_while_vms_send_all_they_can(self):
        control = self.measure(self.attackers_of_others, lambda: None)
        self.start_echo('red')
        self.allow_echo('red')
        own, echo = self.balancer('red'), self.echo_balancer('red', 'hv2')
        self.sdk = self.mine
        with self.captured() as taken:
            hostile = self.measure(
                lambda ports: self.attackers(ports, own, echo),
                self.wait_full)
        self.check_reached(taken)
        figures.record('beside hostile VMs', control, hostile)

    # What the VMs and their clients do

    def aims(self, host, ports):
        vm, other = self.vms['red', host], self.vms['blue', host]
        second, = (name for name in hypervisors.NAMES if name != host)
        key = self.rows[host][0]['key']
        return hostile_vm.Aims(
            name=host, mac=self.ports[vm].mac_address,
            gateway_mac=self.gateway()[1],
            neighbours_mac=self.ports[other].mac_address,
            address=self.ADDRESSES[host], address_v6=self.ADDRESSES_V6[host],
            vip='', neighbours_vip=self.web.vip_address,
            client=paths.CLIENT_ADDRESS, ports=tuple(ports), key=key,
            hypervisor=hypervisors.address(host),
            sid=str(paths.sid_network(paths.number(host))[key]),
            node=nodes.address(topology.NODES[0]),
            peer=hypervisors.address(second))

    def outsiders_aims(self, ports):
        """Of the neighbour on the second hypervisor, which Geneve leads to.
        """
        mac = self.mac(links.ROUTER, hypervisors.PROVIDER_SWITCH)
        return dataclasses.replace(
            self.aims('hv2', ports), name=OUTSIDER, gateway_mac=mac,
            mac=self.mac(OUTSIDER, vms.NIC), neighbours_mac=mac,
            address=OUTSIDERS_ADDRESS)

    def mac(self, host, interface):
        with namespaces.link(self.lab, host) as netlink:
            link, = netlink.get_links(namespaces.index(netlink, interface))
            return link.get_attr('IFLA_ADDRESS')

    def gateway(self):
        """(address, MAC) of the hostile VMs' router."""
        tenant = self.tenants['red']
        return next(
            (fixed['ip_address'], port.mac_address)
            for port in self.cloud.network.ports(
                device_id=tenant.router_id, network_id=tenant.network_id)
            for fixed in port.fixed_ips
            if fixed['subnet_id'] == tenant.subnet_id)

    def all_aims(self, ports):
        return [*(self.aims(host, ports) for host in hypervisors.NAMES),
                self.outsiders_aims(ports)]

    def senders(self, aims):
        return [strangers.Sender(
            self.lab, OUTSIDER if aim.name == OUTSIDER
            else self.vms['red', aim.name], 'hostile_vm',
            f'hostile-{aim.name}', json.dumps(dataclasses.asdict(aim)),
            VM_RATE) for aim in aims]

    def attackers(self, ports, own, echo):
        return [
            *self.senders(dataclasses.replace(aim, vip=own.vip_address)
                          for aim in self.all_aims(ports)),
            strangers.Flood(self.lab, own.vip_address, zero_touch.PORT,
                            FLOOD_RATE),
            strangers.Flood(self.lab, echo.vip_address, zero_touch.PORT,
                            FLOWS_RATE, 'many_flows')]

    def attackers_of_others(self, ports):
        """They send as much to hosts of the fabric that serve nobody, from
        VMs that are no members."""
        first, second, third, last = (members.address(name)
                                      for name in topology.MEMBERS)
        return [
            *self.senders(dataclasses.replace(
                aim, vip=first, neighbours_vip=second, hypervisor=third,
                node=last, sid=members.address(topology.MEMBERS[0], 6))
                for aim in self.all_aims(ports)),
            strangers.Flood(self.lab, first, zero_touch.PORT + 1, FLOOD_RATE),
            strangers.Flood(self.lab, last, zero_touch.PORT + 1, FLOWS_RATE,
                            'many_flows')]

    def wait_full(self):
        """Until they have what flows one port can have of a hypervisor's."""
        port = self.ports[self.vms['red', 'hv2']].id
        self.wait('a full table', lambda: any(
            row['flows'] >= FULL for row in host_agents.show(
                self.lab, 'hv2', 'ports') if row['port'] == port))

    # What of it is seen elsewhere

    @contextlib.contextmanager
    def captured(self):
        """Where → captures."""
        vip = self.web.vip_address
        with contextlib.ExitStack() as stack:
            yield {
                'VMs': [stack.enter_context(capture.Capture(
                    self.lab, self.vms['blue', host], vms.NIC))
                    for host in hypervisors.NAMES],
                'client': [stack.enter_context(capture.Capture(
                    self.lab, client.CLIENT, links.UPLINK,
                    f'src host {vip}'))]}

    def check_reached(self, taken):
        reached = collections.defaultdict(set)
        for where, captures in taken.items():
            for packet in itertools.chain.from_iterable(
                    each.packets for each in captures):
                for host, kind in hostile_vm.marks(packet.data):
                    reached[where, host].add(kind)
        # What may not is not missing because nothing has been sent.
        self.assertIn("a SYN to the neighbour's VIP", reached['VMs', OUTSIDER])
        self.assertEqual({}, {
            place: left for place, kinds in reached.items()
            if (left := kinds - MAY_REACH.get(place, set()))})

    def taken_at_taps(self):
        """How many frames of hostile VMs each hypervisor has taken."""
        result = {}
        for host in hypervisors.NAMES:
            tap = vms.names(self.ports[self.vms['red', host]].id)[0]
            with namespaces.link(self.lab, host) as netlink:
                link, = netlink.get_links(namespaces.index(netlink, tap))
                result[host] = link.get_attr('IFLA_STATS64')['rx_packets']
        return result

    # What the neighbour sees

    def measure(self, attackers_of, ready):
        """Name of a figure → seconds. Everything of it has to work."""
        own = {self.vms['blue', host] for host in hypervisors.NAMES}
        with connections.Connections(
                self.lab, self.web.vip_address, number=CONNECTIONS,
                timeout=30) as held:
            before = held.ask()
            self.assertEqual(own, set(before))
            attackers = attackers_of(held.ports)
            with strangers.all_of(attackers):
                taken = self.taken_at_taps()
                ready()
                with client.Load(self.lab, self.url(self.web), 30) as load:
                    changes = [self.change() for _ in range(CHANGES)]
                    self.assertEqual(before, held.ask())
                    drain = self.drain()
                    self.assertEqual(before, held.ask())
                self.assertEqual([], load.answers.failures)
                self.assertEqual(own, set(load.answers.count))
                requests = self.seconds(
                    lambda: self.served(self.web, 'blue', REQUESTS))
                down = self.member_down()
                gone = self.vms['blue', 'hv2']
                self.assertEqual(
                    [name for name in before if name != gone],
                    [now for was, now in zip(before, held.ask(), strict=True)
                     if was != gone])
                for attacker in attackers:
                    self.assertTrue(attacker.is_alive)
                for host, number in self.taken_at_taps().items():
                    self.assertGreater(number, taken[host] + hostile_vm.EACH)
        return {'change': statistics.median(changes), 'drain': drain,
                'request': requests / REQUESTS, 'member_down': down}

    def seconds(self, function):
        begin = time.monotonic()
        function()
        return time.monotonic() - begin

    def set_weight(self, host, weight):
        self.mine.update_member(self.made[host].id, self.pool, weight=weight)
        self.wait_active(self.web)

    def change(self):
        """A member's weight, which every node has."""
        member = self.mine.get_member(self.made['hv1'].id, self.pool)
        return self.seconds(
            lambda: self.set_weight('hv1', 1 + member.weight % 2))

    def drain(self):
        """Until a member of weight 0 gets no new connection; those that it
        has go on, which is for the caller to see."""
        number = len(hypervisors.NAMES)
        begin = time.monotonic()
        self.set_weight('hv1', 0)
        self.wait_enabled(self.web, number - 1)
        took = time.monotonic() - begin
        self.assertEqual({self.vms['blue', 'hv2']},
                         set(self.served(self.web, 'blue', 50)))
        self.set_weight('hv1', 1)
        self.wait_enabled(self.web, number)
        return took

    def member_down(self):
        """From the end of a server until no node sends it anything."""
        name = nginx.name(self.vms['blue', 'hv2'])
        self.end_server(name)
        number = len(hypervisors.NAMES)
        took = self.seconds(lambda: self.wait_enabled(self.web, number - 1))
        self.wait_statuses(self.pool, {'hv1': 'ONLINE', 'hv2': 'ERROR'})
        self.start_server(name)
        self.wait_online(self.web)
        return took
