# SPDX-License-Identifier: Apache-2.0
"""Packets of 9,000 bytes, which drivers split over several buffers, through a
node to a member, with real sockets.

    client --- r1 === node      r1 routes, by eth0 or eth1 of the node;
                |               the member answers past the node
              member
"""

import hashlib
import os
import socket
import threading

from lab import namespaces
from lab import processes
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import frames
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support import routed
from octavia_xdp_provider.tests.support import form

NODE = routed.NODE
R1, R2 = routed.ROUTERS
MEMBER = {4: '198.18.1.11', 6: '2001:db8:11::11'}
VIP = {4: frames.VIP, 6: frames.VIP_V6}
POOL = {4: '203.0.113.240/30', 6: '2001:db8:f::/126'}  # of NAT
NODES = {(4, 'eth1'): '198.51.101.2', (6, 'eth1'): '2001:db8:1::2',
         (4, 'eth2'): '198.51.102.2', (6, 'eth2'): '2001:db8:2::2'}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
PORT = 80
CLIENT_MTU, MTU = 9000, 9100
# One buffer of veth holds no more.
BUFFER = 4096
AMOUNT = 2 << 20
DSCP = 7
E = datapath.Encapsulation


def _encapsulations(version, outer):
    """Those that go to members of a family."""
    return [E.IPIP, E.GUE, E.GRE, E.GENEVE] + (
        [E.SRV6] if outer == 6 else []) + (
        [E.DSCP] if outer == version else [])


class TestJumboFrames(routed.MonitoredUplinks):

    def setUp(self):
        super().setUp()
        # The second router's link leads to the first one's host: a node with
        # two links to one router. The kernel removes a namespace's links some
        # time after the namespace.
        with namespaces.link(self.lab, NODE) as route:
            route.link('del', index=namespaces.index(route, 'eth2'))
        namespaces.delete(self.lab, R2)
        namespaces.create(self.lab, R2)
        self.cable((NODE, 'eth2', '198.51.102.2', '2001:db8:2::2'),
                   (R1, 'node2', '198.51.102.1', '2001:db8:2::1'))
        self.ip(NODE, 'route', 'add', 'default', 'via', '198.51.102.1',
                'metric', '2')
        self.ip(NODE, 'route', 'add', 'default', 'via', '2001:db8:2::1',
                'dev', 'eth2', 'metric', '2')
        self.host('client', CLIENT_MTU, (frames.CLIENT, '192.0.2.1'),
                  (frames.CLIENT_V6, '2001:db8:c::1'))
        self.host('member', MTU, *(
            (address, address[:-1]) for address in MEMBER.values()))
        for version, vip in VIP.items():
            self.ip('member', 'address', 'add', vip, 'dev', 'lo',
                    *(['nodad'] if version == 6 else []))
        for host, link in ((NODE, 'eth1'), (NODE, 'eth2'), (R1, 'node'),
                           (R1, 'node2')):
            self.ip(host, 'link', 'set', link, 'mtu', str(MTU))
        namespaces.sysctl(self.lab, R1, net__ipv4__ip_forward=1,
                          net__ipv6__conf__all__forwarding=1)
        self.outcomes = {}

    def host(self, name, mtu, *addresses):
        """Behind r1; addresses: (own, r1's)."""
        self.add_behind(R1, name, *addresses)
        for host, link in ((name, 'eth0'), (R1, name)):
            self.ip(host, 'link', 'set', link, 'mtu', str(mtu))
        self.fill_in(name, 'eth0')

    def take_frames(self, *links):
        """A program at the router's ends, so that veth takes frames of the
        node's program there: one without services passes all.
        """
        other = self.open('router')
        with namespaces.inside(self.lab, R1):
            for link in links:
                other.attach(socket.if_nametoindex(link))

    def configure(self, link):
        """Packets to the VIPs come in at this link, and leave by eth1."""
        with namespaces.inside(self.lab, NODE):
            for name in ('eth1', 'eth2'):
                self.datapath.attach(self.index(name))
            self.datapath.set_uplinks([datapath.Uplink(
                self.index('eth1'), MTU, self.mac(NODE, 'eth1'),
                self.mac(R1, 'node'), self.mac(R1, 'node'))])
        self.datapath.set_node(datapath.NodeSettings(
            NODES[4, 'eth1'], NODES[6, 'eth1'],
            flags=datapath.NodeFlag.CLAMP_MSS))
        for version, vip in VIP.items():
            self.ip(R1, 'route', 'replace', vip, 'via',
                    NODES[version, link])

    def setup_member(self):
        nodes = [word for address in NODES.values()
                 for word in ('--node', address)]
        processes.run(self.lab, 'member', [
            private_node.BUILD / 'octavia-xdp-member', 'setup', '--tc',
            '--vip', VIP[4], '--vip', VIP[6],
            '--dscp', f'{DSCP}={VIP[4]}', '--dscp', f'{DSCP}={VIP[6]}',
            *nodes, 'eth0'])

    def serve(self, version, encapsulation, outer=None):
        self.datapath.set_service(
            datapath.Key(VIP[version], 'TCP', PORT),
            [datapath.Member(MEMBER[outer or version])],
            datapath.Settings(
                slots=1009, encapsulation=encapsulation,
                dscp=DSCP if encapsulation == E.DSCP else 0))

    def upload(self, version, member=None):
        """A client sends the member, at the VIP or as a (version, address),
        what it then has the digest of.
        """
        data = os.urandom(AMOUNT)
        family, address = member or (version, VIP[version])
        with namespaces.inside(self.lab, 'member'):
            listener = socket.create_server((address, PORT),
                                            family=FAMILY[family])
        listener.settimeout(self.SOON)
        with namespaces.inside(self.lab, 'client'):
            client = socket.socket(FAMILY[version], socket.SOCK_STREAM)
        client.settimeout(self.SOON)
        with listener, client:
            client.connect((VIP[version], PORT))
            server, _ = listener.accept()
            with server:
                server.settimeout(self.SOON)
                sender = threading.Thread(
                    target=lambda: (client.sendall(data),
                                    client.shutdown(socket.SHUT_WR)))
                sender.start()
                received = hashlib.sha256()
                while chunk := server.recv(1 << 20):
                    received.update(chunk)
                sender.join()
        self.assertEqual(hashlib.sha256(data).digest(), received.digest())

    def counters(self, version):
        return self.datapath.service(
            datapath.Key(VIP[version], 'TCP', PORT)).counters

    def assert_carried(self, version, member=None):
        """An upload arrives whole, in packets of more than one buffer."""
        before = self.counters(version)
        self.upload(version, member)
        after = self.counters(version)
        octets = after.bytes - before.bytes
        self.assertGreater(octets, AMOUNT)
        # ACKs of the few segments that the member sends are not that many.
        self.assertGreater(octets / (after.packets - before.packets), BUFFER)
        self.assertEqual({}, {
            outcome.name: count.packets
            for outcome, count in self.datapath.outcomes().items()
            if count.packets})

    def all_encapsulations(self):
        for version in VIP:
            for outer in VIP:
                for encapsulation in _encapsulations(version, outer):
                    with self.subTest(encapsulation.name, version=version,
                                      outer=outer):
                        self.serve(version, encapsulation, outer)
                        self.assert_carried(version)

    def all_translations(self, link):
        self.take_frames('node', 'node2')
        self.configure(link)
        self.datapath.set_nat_pools(POOL.values())
        for version, pool in POOL.items():
            self.ip(R1, 'route', 'replace', pool, 'via',
                    NODES[version, link])
        for version in VIP:
            for back, address in MEMBER.items():
                with self.subTest(version=version, back=back):
                    self.datapath.set_service(
                        datapath.Key(VIP[version], 'TCP', PORT),
                        [datapath.Member(address)],
                        datapath.Settings(slots=1009,
                                          flags=datapath.ServiceFlag.NAT))
                    self.assert_carried(version, (back, address))

    def test_nat_leaves_where_frames_came_in(self):
        self.all_translations('eth1')

    @form.in_long_form
    def test_nat_leaves_by_another_device(self):
        self.all_translations('eth2')

    def test_frames_leave_where_they_came_in(self):
        self.take_frames('node')
        self.setup_member()
        self.configure('eth1')
        self.all_encapsulations()

    @form.in_long_form
    def test_frames_leave_by_another_device(self):
        self.take_frames('node', 'node2')
        self.setup_member()
        self.configure('eth2')
        self.all_encapsulations()

    def test_a_device_that_takes_no_several_buffers_is_counted(self):
        self.take_frames('node2')
        self.configure('eth2')
        self.datapath.set_service(
            datapath.Key(VIP[4], 'UDP', PORT), [datapath.Member(MEMBER[4])],
            datapath.Settings(slots=1009))
        with namespaces.inside(self.lab, 'client'):
            client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with client:
            client.sendto(bytes(8000), (VIP[4], PORT))
        outcome = datapath.Outcome.DROP_MULTI_BUFFER
        self.wait('a counted drop', lambda: self.datapath.outcomes()[
            outcome].packets == 1)
        self.assertGreater(self.datapath.outcomes()[outcome].bytes, 8000)
        self.assertEqual(1, self.datapath.service(
            datapath.Key(VIP[4], 'UDP', PORT)).drops)
