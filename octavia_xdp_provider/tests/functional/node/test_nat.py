# SPDX-License-Identifier: Apache-2.0
"""NAT with real sockets at both ends, and nodes between which routers move
the client's packets: needs root."""

from concurrent import futures
import hashlib
import itertools
import os
import socket
import threading
import types
from unittest import mock

from lab import namespaces
from octavia_xdp_provider.ctl import nat_flows
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import upgrade
from octavia_xdp_provider.tests.functional.support import nat_bed
from octavia_xdp_provider.tests.functional.support import upgrading

PAIRS = tuple(itertools.product((4, 6), (4, 6)))
AMOUNT = 1 << 20
Outcome = datapath.Outcome


class Served:
    """A member's server: sends each client what it has of it, by parts."""

    def __init__(self, bed, family):
        self.listener = bed.socket(nat_bed.MEMBER, family)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((nat_bed.address(nat_bed.MEMBER, family),
                            nat_bed.LOCAL))
        self.listener.listen(16)

    def accept(self, bed):
        accepted, self.peer = self.listener.accept()
        bed.addCleanup(accepted.close)
        accepted.settimeout(bed.SOON)
        return accepted

    def close(self):
        self.listener.close()


def receive(connection, count):
    """So many bytes."""
    data = bytearray()
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise AssertionError(f'the end after {len(data)} of {count}')
        data += part
    return bytes(data)


def transfer(sender, receiver, amount=AMOUNT):
    """Whether random bytes arrive as they were sent."""
    data = os.urandom(amount)
    thread = threading.Thread(target=sender.sendall, args=(data,))
    thread.start()
    got = receive(receiver, amount)
    thread.join()
    return hashlib.sha256(data).digest() == hashlib.sha256(got).digest()


class NatCase(nat_bed.NatBed):

    def connect(self, server, front):
        client = self.socket(nat_bed.CLIENT, front)
        client.connect((nat_bed.VIP[front], nat_bed.PORT))
        return client, server.accept(self)

    def dropped(self, node='n1'):
        return {outcome.name: count.packets for outcome, count
                in self.nodes[node].outcomes().items() if count.packets}


class TestTcp(NatCase):

    def test_both_directions_of_all_pairs_of_families(self):
        for front, back in PAIRS:
            with self.subTest(front=front, back=back):
                key = self.serve(front, back)
                server = Served(self, back)
                client, accepted = self.connect(server, front)
                pool = nat_bed.POOLS['n1'][back == 6].rsplit('/')[0]
                self.assertEqual(pool[:-1], server.peer[0][:len(pool) - 1])
                self.assertTrue(transfer(client, accepted))
                self.assertTrue(transfer(accepted, client))
                self.assertEqual(1, self.nodes['n1'].service(key).active)
                (flow,), count = self.nodes['n1'].nat_flows(service=key)
                self.assertEqual((1, client.getsockname()[1]),
                                 (count, flow.client_port))
                client.close()
                self.assertEqual(b'', accepted.recv(1))
                accepted.close()
                server.close()
                self.wait('the end of the flow', lambda key=key: self.nodes[
                    'n1'].service(key).active == 0)
                self.assertEqual({}, self.dropped())
                self.nodes['n1'].delete_services([key])
                self.nodes['n2'].delete_services([key])


class TestShown(NatCase):

    def test_flows_are_shown_bounded_and_by_service(self):
        key = self.serve(4, 6)
        self.serve(6, 4)
        client, _ = self.connect(Served(self, 6), 4)
        node = self.nodes['n1']
        arguments = types.SimpleNamespace(vip=None, protocol=None, port=None)
        value, text = nat_flows.nat(node, arguments)
        flow, = value['flows']
        self.assertEqual(
            (key.address, *client.getsockname(), nat_bed.LOCAL),
            (flow['vip'], flow['client'], flow['client_port'],
             flow['member_port']))
        self.assertEqual(list(nat_bed.POOLS['n1']), value['pools'])
        self.assertIn('1 of 258048 ports taken', text)
        self.assertEqual(60, value['timeouts_s']['time_wait'])
        self.assertIn('tcp_opening 240 s', text)
        for vip, count in ((nat_bed.VIP[4], 1), (nat_bed.VIP[6], 0)):
            arguments.vip = vip
            self.assertEqual(count, nat_flows.nat(node, arguments)[0][
                'count'])
        arguments.vip = None
        with mock.patch.object(nat_flows, 'SHOWN_MAX', 1):
            self.connect_again(4)
            value, text = nat_flows.nat(node, arguments)
        self.assertEqual((1, 2), (len(value['flows']), value['count']))
        self.assertIn('1 of 2 flows', text)

    def connect_again(self, front):
        self.socket(nat_bed.CLIENT, front).connect(
            (nat_bed.VIP[front], nat_bed.PORT))


class TestDatagrams(NatCase):

    def test_whole_and_in_fragments(self):
        # Nodes cut nothing: room for the longer headers of IPv6.
        for host, network in itertools.product(
                (nat_bed.CLIENT, nat_bed.MEMBER), (0, 1)):
            self.ip(host, 'route', 'replace', 'default', 'via',
                    nat_bed.NETWORKS[host][network] + '1', 'dev', 'eth0',
                    'mtu', '1400')
        for front, back in PAIRS:
            with self.subTest(front=front, back=back):
                key = self.serve(front, back, 'UDP')
                server = self.socket(nat_bed.MEMBER, back, socket.SOCK_DGRAM)
                server.bind((nat_bed.address(nat_bed.MEMBER, back),
                             nat_bed.LOCAL))
                client = self.socket(nat_bed.CLIENT, front,
                                     socket.SOCK_DGRAM)
                client.connect((nat_bed.VIP[front], nat_bed.PORT))
                for length in (0, 1, 1201, 4001):
                    data = os.urandom(length)
                    client.send(data)
                    got, source = server.recvfrom(65536)
                    self.assertEqual(data, got)
                    server.sendto(data, source)
                    self.assertEqual(data, client.recv(65536))
                server.close()
                self.assertEqual({}, self.dropped())
                self.nodes['n1'].delete_services([key])


class TestMoved(NatCase):
    """Routers send a client's packets to the node that does not know it."""

    def setUp(self):
        super().setUp()
        for node in self.nodes.values():
            node.set_nat_peers(nat_bed.PEERS[4])

    def handed_on(self, node):
        return self.nodes[node].outcomes()[Outcome.NAT_HANDED_ON].packets

    def test_connections_live_on(self):
        for (front, back), family in itertools.product(PAIRS, (4, 6)):
            with self.subTest(front=front, back=back, peers=family):
                for node in self.nodes.values():
                    node.set_nat_peers(nat_bed.PEERS[family])
                key = self.serve(front, back)
                self.move_vips('n1')
                server = Served(self, back)
                client, accepted = self.connect(server, front)
                self.assertTrue(transfer(client, accepted))
                before = self.handed_on('n2'), self.handed_on('n1')
                self.move_vips('n2')
                self.assertTrue(transfer(accepted, client))
                self.assertTrue(transfer(client, accepted))
                sought = self.handed_on('n1') - before[1]
                on = self.handed_on('n2') - before[0]
                # Most packets go straight to the owner, which has said that
                # it is for those that came before it was known.
                self.assertGreater(on, 4 * sought)
                self.assertGreater(sought, 0)
                self.assertEqual(0, self.nodes['n2'].service(key).active)
                self.move_vips('n1')
                self.assertTrue(transfer(accepted, client))
                client.close()
                self.assertEqual(b'', accepted.recv(1))
                accepted.close()
                server.close()
                for node in self.nodes.values():
                    node.delete_services([key])
        for node in nat_bed.NODES:
            self.assertLessEqual(self.dropped(node).keys(),
                                 {'NAT_HANDED_ON'})

    def datagrams(self, back):
        """(the member's socket, function by which a client asks it, and which
        returns where the member saw it come from)
        """
        server = self.socket(nat_bed.MEMBER, back, socket.SOCK_DGRAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((nat_bed.address(nat_bed.MEMBER, back), nat_bed.LOCAL))
        self.addCleanup(server.close)

        def ask(client):
            data = os.urandom(100)
            client.send(data)
            got, source = server.recvfrom(1000)
            self.assertEqual(data, got)
            server.sendto(data, source)
            self.assertEqual(data, client.recv(1000))
            return source[:2]

        return server, ask

    def asker(self, front):
        client = self.socket(nat_bed.CLIENT, front, socket.SOCK_DGRAM)
        client.connect((nat_bed.VIP[front], nat_bed.PORT))
        return client

    def test_datagrams_keep_their_flow_if_they_are_sought(self):
        for front, back in PAIRS:
            with self.subTest(front=front, back=back):
                key = self.serve(front, back, 'UDP')
                server, ask = self.datagrams(back)
                self.move_vips('n1')
                client = self.asker(front)
                source = ask(client)
                for node in self.nodes.values():
                    node.seek_udp(10000)
                self.move_vips('n2')
                for _ in range(10):
                    self.assertEqual(source, ask(client))
                # Known flows live longer.
                for node in self.nodes.values():
                    node.seek_udp(0)
                self.assertEqual(source, ask(client))
                self.assertEqual(0, self.nodes['n2'].service(key).active)
                ask(self.asker(front))
                self.assertEqual(1, self.nodes['n2'].service(key).active)
                self.move_vips('n1')
                self.assertEqual(source, ask(client))
                server.close()
                for node in self.nodes.values():
                    node.delete_services([key])
        for node in nat_bed.NODES:
            self.assertLessEqual(self.dropped(node).keys(),
                                 {'NAT_HANDED_ON'})

    def lose(self):
        """All flows, as a node that boots."""
        self.nodes['n1'].set_nat_peers([])
        self.nodes['n1'].set_nat_pools([])
        self.nodes['n1'].set_nat_pools(nat_bed.POOLS['n1'])
        self.nodes['n1'].set_nat_peers(nat_bed.PEERS[4])

    def test_by_the_routes_of_the_kernel(self):
        """Clients' packets, those that are handed on, and resets."""
        for name in nat_bed.NODES:
            self.leave_by_routes(name)
        for front in (4, 6):
            with self.subTest(front=front):
                key = self.serve(front, 4)
                server = Served(self, 4)
                client, accepted = self.connect(server, front)
                self.assertTrue(transfer(client, accepted))
                self.move_vips('n2')
                self.assertTrue(transfer(accepted, client))
                self.assertTrue(transfer(client, accepted))
                self.lose()
                client.sendall(b'x')
                self.assertRaises(ConnectionResetError, client.recv, 1)
                self.assertGreater(self.dropped('n2')['SENT_RESET'], 0)
                self.move_vips('n1')
                server.close()
                for node in self.nodes.values():
                    node.delete_services([key])


class TestUpgraded(NatCase):
    """Another layout's library takes the node over, and gives it back."""

    def test_flows_pools_peers_and_time_outs_stay(self):
        key = self.serve(4, 6)
        node = self.nodes['n1']
        node.set_nat_peers(nat_bed.PEERS[4])
        timeouts = datapath.NatTimeouts(30, 50, 20, 40)
        node.set_nat_timeouts(timeouts)
        node.seek_udp(10000)
        server = Served(self, 6)
        client, accepted = self.connect(server, 4)
        self.assertTrue(transfer(client, accepted))
        settings = node.service(key).settings
        node.close()
        own = upgrading.OWN
        for library, before in ((upgrading.LAYOUTS[1001], own),
                                (own, upgrading.LAYOUTS[1001])):
            with futures.ThreadPoolExecutor(1) as mover:
                taken = mover.submit(self.take_over, library, before)
                for _ in range(8):
                    self.assertTrue(transfer(accepted, client))
                    self.assertTrue(transfer(client, accepted))
            taken.result()
            other, again = self.connect(server, 4)
            self.assertTrue(transfer(other, again))
            other.close()
            self.assertEqual(b'', again.recv(1))
            again.close()
        self.nodes['n1'] = node = self.open('n1')
        self.assertEqual(list(nat_bed.POOLS['n1']), node.nat_pools())
        self.assertEqual(list(nat_bed.PEERS[4]), node.nat_peers())
        self.assertEqual(timeouts, node.nat_timeouts())
        self.assertIn(node.seeks_udp_s(), range(9000, 10001))
        service = node.service(key)
        self.assertEqual((settings, 1), (service.settings, service.active))
        self.assertEqual([], node.faults())
        self.assertEqual({}, self.dropped())

    def take_over(self, library, before):
        with namespaces.inside(self.lab, 'n1'):
            upgrade.upgrade(str(self.bpffs / 'n1'),
                            self.lock('n1'), library, from_library=before)
