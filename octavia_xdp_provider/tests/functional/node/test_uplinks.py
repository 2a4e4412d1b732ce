# SPDX-License-Identifier: Apache-2.0
"""Uplinks, next hops and path MTUs as the running kernel has them."""

import contextlib
import itertools
import socket

from lab import namespaces
from octavia_xdp_provider.agent.uplinks import path_mtu
from octavia_xdp_provider.node import netlink
from octavia_xdp_provider.tests.functional.support import routed
from octavia_xdp_provider.tests.functional.support.routed import NODE
from octavia_xdp_provider.tests.functional.support.routed import ROUTERS

# linux/in.h, linux/in6.h
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, PMTUDISC_DO = 10, 23, 2
MEMBER = '198.18.10.11'
MEMBER_V6 = '2001:db8:10::11'


class TestUplinkMonitor(routed.MonitoredUplinks):

    def attached(self):
        shown = self.ip(NODE, '-o', 'link', 'show')
        return {line.split()[1].split('@')[0] for line in
                shown.splitlines() if 'prog/xdp' in line}

    def test_next_hops_are_asked_for(self):
        self.start()
        self.wait_next_hops(*itertools.product(('eth1', 'eth2'), (4, 6)))
        self.assertEqual(
            {name: self.mac(router, 'node') for name, router
             in zip(('eth1', 'eth2'), ROUTERS, strict=True)},
            {name: mac for (name, version), mac in self.next_hops().items()
             if version == 4})
        self.assertEqual({4, 6}, self.monitor.ready)
        self.assertEqual({'eth1', 'eth2'}, self.attached())
        report = self.monitor.report()
        self.assertEqual(('198.51.101.2', '2001:db8:1::2'), (
            report['outer_source'], report['outer_source_v6']))

    def test_lost_carrier_and_back(self):
        self.start()
        self.wait_next_hops(*itertools.product(('eth1', 'eth2'), (4, 6)))
        self.ip(ROUTERS[0], 'link', 'set', 'node', 'down')
        self.wait_next_hops(('eth2', 4), ('eth2', 6))
        self.assertIn('carrier', self.monitor.states[0].problem)
        self.ip(ROUTERS[0], 'link', 'set', 'node', 'up')
        # The router has forgotten its IPv6 address.
        self.ip(ROUTERS[0], 'address', 'replace', '2001:db8:1::1/64', 'dev',
                'node', 'nodad')
        self.wait_next_hops(*itertools.product(('eth1', 'eth2'), (4, 6)))

    def test_next_hop_that_is_silent(self):
        self.start()
        self.wait_next_hops(*itertools.product(('eth1', 'eth2'), (4, 6)))
        index = self.index('eth1')
        self.ip(ROUTERS[0], 'address', 'del', '198.51.101.1/24', 'dev',
                'node')
        with namespaces.link(self.lab, NODE) as route:
            # The state after some time without an answer.
            route.neigh('set', dst='198.51.101.1', ifindex=index,
                        lladdr=self.mac(ROUTERS[0], 'node'),
                        state='failed')
        self.wait_next_hops(('eth1', 6), ('eth2', 4), ('eth2', 6))
        self.ip(ROUTERS[0], 'address', 'add', '198.51.101.1/24', 'dev',
                'node')
        self.wait_next_hops(*itertools.product(('eth1', 'eth2'), (4, 6)))

    def test_new_mac_of_a_next_hop(self):
        self.start('uplinks = eth1\n')
        self.wait_next_hops(('eth1', 4), ('eth1', 6))
        self.ip(ROUTERS[0], 'link', 'set', 'node', 'address',
                '02:00:00:00:00:99')
        # Only neighbours that are used are asked again, by the monitor.
        for address in ('198.51.101.1', '2001:db8:1::1'):
            self.ip(NODE, 'neigh', 'change', address, 'dev', 'eth1', 'nud',
                    'stale')
        self.wait('new MAC', lambda: set(self.next_hops().values()) == {
            '02:00:00:00:00:99'})

    def test_interface_comes_later_and_again(self):
        self.start('uplinks = eth1, eth3\ngateways = eth3=198.51.103.1\n')
        self.assertIn('no such interface', self.monitor.states[1].problem)
        for _ in range(2):
            self.cable((NODE, 'eth3', '198.51.103.2'),
                       (ROUTERS[0], 'third', '198.51.103.1'))
            self.wait_next_hops(('eth1', 4), ('eth1', 6), ('eth3', 4))
            self.assertEqual({'eth1', 'eth3'}, self.attached())
            self.ip(NODE, 'link', 'del', 'eth3')
            self.wait_next_hops(('eth1', 4), ('eth1', 6))


class TestPathMtu(routed.Routed):
    """r1 leads to the members by a link that carries less."""

    def setUp(self):
        super().setUp()
        with namespaces.inside(self.lab, NODE):
            self.kernel = netlink.Kernel()
        self.addCleanup(self.kernel.close)
        self.paths = path_mtu.PathMtu(self.kernel)

    def mtus(self):
        self.paths.refresh()
        return self.paths.of(MEMBER), self.paths.of(MEMBER_V6)

    def test_mtu_comes_from_routes(self):
        self.assertEqual((0, 0), self.mtus())
        for destination, gateway in (('198.18.0.0/16', '198.51.101.1'),
                                     ('2001:db8:10::/64', '2001:db8:1::1')):
            self.ip(NODE, 'route', 'add', destination, 'via', gateway, 'mtu',
                    '1400')
        self.assertEqual((1400, 1400), self.mtus())
        self.ip(NODE, 'route', 'add', 'unreachable', f'{MEMBER}/32')
        self.ip(NODE, 'route', 'change', '198.18.0.0/16', 'via',
                '198.51.101.1', 'mtu', '1300')
        self.assertEqual((0, 1400), self.mtus())
        self.assertEqual(1300, self.paths.of('198.18.10.12'))
        self.ip(NODE, 'route', 'del', '198.18.0.0/16')
        self.assertEqual((0, 1400), self.mtus())

    def test_mtu_is_learnt_from_a_router(self):
        self.add_hosts('member')
        self.cable((ROUTERS[0], 'members', '198.18.10.1', '2001:db8:10::1'),
                   ('member', 'eth0', '198.18.10.11', '2001:db8:10::11'))
        namespaces.sysctl(self.lab, ROUTERS[0], net__ipv4__ip_forward=1,
                          net__ipv6__conf__all__forwarding=1)
        for host, link in ((ROUTERS[0], 'members'), ('member', 'eth0')):
            self.ip(host, 'link', 'set', link, 'mtu', '1400')
        self.assertEqual((0, 0), self.mtus())
        self.wait('MTUs', self.learnt)
        self.ip(NODE, '-4', 'route', 'flush', 'cache')
        self.assertEqual((0, 1400), self.mtus())

    def learnt(self):
        """Send what the router cannot pass on and answers with its MTU.

        The kernel shows it as soon as it is used the next time.
        """
        for family, destination, option in (
                (socket.AF_INET, MEMBER,
                 (socket.IPPROTO_IP, IP_MTU_DISCOVER)),
                (socket.AF_INET6, MEMBER_V6,
                 (socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER))):
            with namespaces.inside(self.lab, NODE):
                sender = socket.socket(family, socket.SOCK_DGRAM)
            with sender, contextlib.suppress(OSError):
                sender.setsockopt(*option, PMTUDISC_DO)
                sender.sendto(bytes(1440), (destination, 9))
        return self.mtus() == (1400, 1400)
