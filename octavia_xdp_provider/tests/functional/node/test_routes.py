# SPDX-License-Identifier: Apache-2.0
"""[datapath] next_hop: packets leave by uplinks, or by the kernel's routes.

Real packets through the program in the driver, from and to two routers.
"""

import itertools
import struct

from lab import namespaces
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import frames
from octavia_xdp_provider.tests.functional.support import routed
from octavia_xdp_provider.tests.functional.support import wires

NODE = routed.NODE
R1, R2 = routed.ROUTERS
SOURCE, SOURCE_V6 = '198.51.101.2', '2001:db8:1::2'
NO_NEXT_HOP = datapath.Outcome.DROP_NO_NEXT_HOP
ROUTES = 'uplinks = eth1, eth2\n[datapath]\nnext_hop = routes\n'


class TestUplinks(wires.Wires):

    def setUp(self):
        super().setUp()
        self.serve(53, '198.18.10.11')
        self.start()
        self.wait_next_hops(*itertools.product(('eth1', 'eth2'), (4, 6)))

    def routers(self, came):
        """Where flows leave to that came by a router."""
        return {self.exchange(came, frames.udp_v4(port, 53, b'question'))[0]
                for port in range(1024, 1024 + 40)}

    def test_flows_take_both_uplinks_wherever_they_came_in(self):
        for came in (R1, R2):
            self.assertEqual({R1, R2}, self.routers(came))
        self.assertEqual(80, self.datapath.service(
            datapath.Key(frames.VIP, 'UDP', 53)).counters.packets)

    def test_flow_keeps_its_uplink(self):
        packet = frames.udp_v4(1024, 53, b'question')
        router, _ = self.exchange(R1, packet)
        self.assert_left(router, packet, (SOURCE, '198.18.10.11'), came=R2)

    def test_device_that_was_made_anew_is_an_uplink_again(self):
        for _ in range(2):
            del self.wires[R2]
            self.ip(NODE, 'link', 'del', 'eth2')
            self.wait_next_hops(('eth1', 4), ('eth1', 6))
            self.assertEqual({R1}, self.routers(R1))
            self.cable((NODE, 'eth2', '198.51.102.2'),
                       (R2, 'node', '198.51.102.1'))
            self.ip(NODE, 'route', 'add', 'default', 'via', '198.51.102.1',
                    'metric', '2')
            self.wires[R2] = wires.Wire(self, R2, 'eth2')
            self.wait_next_hops(('eth1', 4), ('eth1', 6), ('eth2', 4))
            self.assertEqual({R1, R2}, self.routers(R1))


class TestRoutes(wires.Wires):

    def setUp(self):
        super().setUp()
        namespaces.sysctl(self.lab, NODE, net__ipv4__ip_forward=1,
                          net__ipv6__conf__all__forwarding=1)
        for number in (1, 2):
            self.ip(NODE, 'route', 'add', f'198.18.{number}.0/24', 'via',
                    f'198.51.10{number}.1')
            self.ip(NODE, 'route', 'add', f'2001:db8:10:{number}::/64', 'via',
                    f'2001:db8:{number}::1')
        self.start(ROUTES)
        # The default routes' next hops: then the kernel knows them.
        self.wait_next_hops(*itertools.product(('eth1', 'eth2'), (4, 6)))

    def test_each_member_is_reached_by_its_own_route(self):
        for number, router in enumerate((R1, R2), start=1):
            v4, v6 = f'198.18.{number}.11', f'2001:db8:10:{number}::11'
            self.serve(number, v4)
            self.serve(number + 10, v6)
            self.serve(number, v6, vip=frames.VIP_V6)
            self.serve(number + 10, v4, vip=frames.VIP_V6)
            self.serve(number + 20, v4,
                       encapsulation=datapath.Encapsulation.GUE)
            self.serve(number + 20, v6, vip=frames.VIP_V6,
                       encapsulation=datapath.Encapsulation.GRE)
            for came, flow in itertools.product((R1, R2), (1024, 1025)):
                for listener, outer in (
                        (number, (SOURCE, v4)),
                        (number + 10, (SOURCE_V6, v6)),
                        (number + 20, (SOURCE, v4))):
                    self.assert_left(router, frames.udp_v4(
                        flow, listener, b'question'), outer, came)
                for listener, outer in (
                        (number, (SOURCE_V6, v6)),
                        (number + 10, (SOURCE, v4)),
                        (number + 20, (SOURCE_V6, v6))):
                    self.assert_left(router, frames.udp_v6(
                        flow, listener, b'question'), outer, came)
        self.assertEqual((0, 0), self.datapath.outcomes()[NO_NEXT_HOP])

    def test_rules_see_what_leaves(self):
        """By source: the node's, but with DSCP the client's."""
        for version, vip, client, member, gateway in (
                ('-4', frames.VIP, frames.CLIENT, '198.18.1.11',
                 '198.51.102.1'),
                ('-6', frames.VIP_V6, frames.CLIENT_V6, '2001:db8:10:1::11',
                 '2001:db8:2::1')):
            self.ip(NODE, version, 'route', 'add', 'default', 'via', gateway,
                    'table', '77')
            self.ip(NODE, version, 'rule', 'add', 'from', client, 'lookup',
                    '77')
            self.serve(1, member, vip=vip)
            self.serve(2, member, vip=vip, dscp=7,
                       encapsulation=datapath.Encapsulation.DSCP)
        for make, source, member in (
                (frames.udp_v4, SOURCE, '198.18.1.11'),
                (frames.udp_v6, SOURCE_V6,
                 '2001:db8:10:1::11')):
            self.assert_left(R1, make(1024, 1, b'question'),
                             (source, member))
            packet = make(1024, 2, b'the same to the end')
            self.wires[R1].send(packet)
            host, frame = self.receive(
                lambda frame: frame.endswith(b'the same to the end'))
            self.assertEqual(R2, host)
            self.assertEqual(len(packet), len(frame) - 14)

    def test_flows_spread_over_several_next_hops(self):
        self.ip(NODE, '-6', 'route', 'add', '2001:db8:10:3::/64',
                'nexthop', 'via', '2001:db8:1::1', 'dev', 'eth1',
                'nexthop', 'via', '2001:db8:2::1', 'dev', 'eth2')
        self.serve(1, '2001:db8:10:3::11', vip=frames.VIP_V6)
        packets = [frames.udp_v6(port, 1, b'question')
                   for port in range(1024, 1024 + 40)]
        first = [self.exchange(R1, packet)[0] for packet in packets]
        self.assertEqual({R1, R2}, set(first))
        self.assertEqual(first, [self.exchange(R2, packet)[0]
                                 for packet in packets])

    def test_packets_are_dropped_while_the_next_hop_is_not_known(self):
        mac = self.mac(R1, 'node')
        for make, member, network, gateway, vip in (
                (frames.udp_v4, '198.18.3.11', '198.18.3.0/24',
                 '198.51.101.77', frames.VIP),
                (frames.udp_v6, '2001:db8:10:3::11', '2001:db8:10:3::/64',
                 '2001:db8:1::77', frames.VIP_V6)):
            self.serve(1, member, vip=vip)
            packet = make(1024, 1, b'question')
            self.ip(NODE, 'route', 'add', network, 'via', gateway)
            self.assert_dropped(R1, packet, NO_NEXT_HOP)
            self.ip(NODE, 'neigh', 'add', gateway, 'lladdr', mac, 'dev',
                    'eth1')
            self.assertEqual(R1, self.exchange(R1, packet)[0])
            self.ip(NODE, 'route', 'replace', 'unreachable', network)
            self.assert_dropped(R1, packet, NO_NEXT_HOP)

    def test_packets_are_dropped_if_the_device_is_no_uplink(self):
        self.cable((NODE, 'eth3', '198.51.103.2'), (R1, 'third'))
        self.ip(NODE, 'neigh', 'add', '198.51.103.1', 'lladdr',
                self.mac(R1, 'third'), 'dev', 'eth3')
        self.serve(1, '198.51.103.1')
        self.assert_dropped(R1, frames.udp_v4(1024, 1, b'question'),
                            NO_NEXT_HOP)

    def test_mtu_of_the_route_is_obeyed(self):
        # Without the lock the kernel forwards by the device's.
        self.ip(NODE, 'route', 'add', '198.18.3.0/24', 'via', '198.51.102.1',
                'mtu', 'lock', '1400')
        self.ip(NODE, 'route', 'add', '2001:db8:10:3::/64', 'via',
                '2001:db8:2::1', 'mtu', 'lock', '1400')
        self.serve(1, '198.18.3.11')
        self.serve(1, '2001:db8:10:3::11', vip=frames.VIP_V6)
        # Largest UDP payloads: 1400 less outer, inner and UDP headers.
        fits, fits_v6 = bytes(1400 - 20 - 28), bytes(1400 - 40 - 48)
        self.assertEqual(R2, self.exchange(
            R1, frames.udp_v4(1024, 1, fits))[0])
        self.assertEqual(R2, self.exchange(
            R1, frames.udp_v6(1024, 1, fits_v6))[0])
        self.assert_reported(frames.udp_v4(1024, 1, fits + b'0'), 1380,
                             lambda ip: ip[9] == 1 and ip[20:22] == b'\3\4')
        self.assert_reported(frames.udp_v6(1024, 1, fits_v6 + b'0'), 1360,
                             lambda ip: ip[6] == 58 and ip[40] == 2)

    def assert_reported(self, packet, mtu, is_error):
        """The client is, by the router that its packet came from."""
        start = 28 if packet[0] >> 4 == 4 else 48
        self.wires[R1].send(packet)
        host, frame = self.receive(
            lambda frame: frame[12:14] == frames.ethertype(packet) and
            is_error(frame[14:]))
        self.assertEqual(R1, host)
        error = frame[14:]
        self.assertEqual(mtu, struct.unpack('!I', error[start - 4:start])[0])
        self.assertEqual(packet[:100], error[start:start + 100])

    def test_packets_are_dropped_where_forwarding_is_off(self):
        self.serve(1, '198.18.1.11')
        packet = frames.udp_v4(1024, 1, b'question')
        namespaces.sysctl(self.lab, NODE, net__ipv4__conf__eth1__forwarding=0)
        self.assert_dropped(R1, packet, NO_NEXT_HOP)
        namespaces.sysctl(self.lab, NODE, net__ipv4__conf__eth1__forwarding=1)
        self.assertEqual(R1, self.exchange(R1, packet)[0])
