# SPDX-License-Identifier: Apache-2.0
"""A listener's limit of connections on two nodes, with real TCP: what they let
in together is what the member has accepted.

    client --- r1 === node, node2     r1 spreads connections over both;
                |                     the member answers past them
              member
"""

import contextlib
import select
import socket
import threading

from lab import namespaces
from lab import processes
from octavia_xdp_provider.common import connections
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests import instrumented
from octavia_xdp_provider.tests.functional.support import frames
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support import routed

R1 = routed.ROUTERS[0]
NODES = {'node': ('eth1', 'node', '198.51.101.2'),
         'node2': ('eth0', 'node2', '198.51.103.2')}
MEMBER, GATEWAY = '198.18.1.11', '198.18.1.1'
KEY = datapath.Key(frames.VIP, 'TCP', 80)
CLIENTS = 50
LIMIT = 10
Flag = datapath.ServiceFlag
NO_FLAGS = Flag(0)


class TestConnectionLimit(routed.MonitoredUplinks):

    def setUp(self):
        super().setUp()
        self.link('node2', 'eth0', '198.51.103.2', '198.51.103.1')
        self.link('client', 'eth0', frames.CLIENT, '192.0.2.1')
        self.link('member', 'eth0', MEMBER, GATEWAY)
        self.ip('member', 'address', 'add', frames.VIP, 'dev', 'lo')
        namespaces.sysctl(self.lab, R1, net__ipv4__ip_forward=1,
                          net__ipv4__fib_multipath_hash_policy=1)
        # Programs know nothing of checksums that a device is still to fill in.
        processes.run(self.lab, 'client', [
            'ethtool', '-K', 'eth0', 'tx', 'off', 'gso', 'off'])
        processes.run(self.lab, 'member', [
            private_node.BUILD / 'octavia-xdp-member', 'setup', '--tc',
            '--vip', frames.VIP, *(word for *_, address in NODES.values()
                                   for word in ('--node', address)), 'eth0'])
        self.datapaths = {'node': self.datapath, 'node2': self.other('two')}
        router = self.other('router')
        with namespaces.inside(self.lab, R1):
            for _, link, _ in NODES.values():
                router.attach(socket.if_nametoindex(link))
        for host, (link, port, address) in NODES.items():
            opened = self.datapaths[host]
            with namespaces.inside(self.lab, host):
                index = socket.if_nametoindex(link)
                opened.attach(index)
                opened.set_uplinks([datapath.Uplink(
                    index, 1500, self.mac(host, link), self.mac(R1, port))])
            opened.set_node(datapath.NodeSettings(address, icmp_rate=1000))
        hops = [word for *_, address in NODES.values()
                for word in ('nexthop', 'via', address)]
        self.ip(R1, 'route', 'add', frames.VIP, *hops)
        self.held = []
        self.addCleanup(self.close_all)
        self.accepted = self.listen()

    def other(self, name):
        opened = instrumented.Datapath(
            str(self.lab.run_directory / 'bpf' / name),
            str(self.lab.run_directory / f'lock-{name}'), create=True,
            services_max=16, members_max=64, slots_max=1009,
            library=private_node.library_path())
        self.addCleanup(opened.close)
        return opened

    def link(self, name, link, own, gateway):
        """A host behind r1."""
        namespaces.create(self.lab, name)
        self.addCleanup(namespaces.delete, self.lab, name)
        namespaces.veth(self.lab, (name, link), (R1, name))
        namespaces.address(self.lab, name, link, f'{own}/24')
        namespaces.address(self.lab, R1, name, f'{gateway}/24')
        self.ip(name, 'route', 'add', 'default', 'via', gateway)

    def listen(self):
        """The member's end of all connections, as they come."""
        with namespaces.inside(self.lab, 'member'):
            listener = socket.create_server((frames.VIP, KEY.port),
                                            backlog=CLIENTS)
        accepted = []

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    accepted.append(listener.accept()[0])
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()

        def end():
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            thread.join()
            for one in accepted:
                one.close()
        self.addCleanup(end)
        return accepted

    def serve(self, limit, flags=NO_FLAGS):
        """As the agents of two nodes that announce the VIP."""
        document = {'announcing': sorted(NODES), 'vip_address': frames.VIP,
                    'additional_vips': []}
        for host, opened in self.datapaths.items():
            share = connections.share(
                document, {'connection_limit': limit}, host, frames.VIP)
            opened.set_service(KEY, [datapath.Member(MEMBER)],
                               datapath.Settings(
                                   slots=1009, connection_limit=share,
                                   flags=flags if limit else NO_FLAGS))

    def close_all(self):
        for one in self.held:
            one.close()
        self.held.clear()

    def connect(self, number, patience_s):
        """Begin so many connections. Returns (those that are there, those
        that were reset); the others have no answer."""
        poll = select.epoll()
        begun = {}
        for _ in range(number):
            with namespaces.inside(self.lab, 'client'):
                one = socket.socket()
            one.setblocking(False)
            one.connect_ex((frames.VIP, KEY.port))
            begun[one.fileno()] = one
            poll.register(one, select.EPOLLOUT)
        there, reset = [], []
        with poll:
            while ready := poll.poll(patience_s):
                for number, _ in ready:
                    one = begun.pop(number)
                    poll.unregister(one)
                    if one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        reset.append(one)
                    else:
                        there.append(one)
        for one in (*begun.values(), *reset):
            one.close()
        self.held += there
        return there, reset

    def open_connections(self):
        return sum(opened.service(KEY).open_connections
                   for opened in self.datapaths.values())

    def outcomes(self, outcome):
        return sum(opened.outcomes()[outcome].packets
                   for opened in self.datapaths.values())

    def assert_true_count(self, number, ended=0):
        """So many connections: for the nodes and for the member, which has
        had others that have ended.
        """
        self.wait(f'{number} connections accepted',
                  lambda: len(self.accepted) == ended + number)
        self.assertEqual(number, self.open_connections())

    def test_two_nodes_let_in_the_limit_together(self):
        self.serve(LIMIT)
        there, reset = self.connect(CLIENTS, 3)
        self.assertEqual((LIMIT, 0), (len(there), len(reset)))
        self.assert_true_count(LIMIT)
        # Each SYN that was not let in, and those that its client repeated.
        self.assertGreaterEqual(
            self.outcomes(datapath.Outcome.DROP_CONNECTION_LIMIT),
            CLIENTS - LIMIT)
        for one in there:
            one.sendall(b'x')
        for one in self.accepted:
            self.assertEqual(b'x', one.recv(1))

    def test_clients_beyond_it_are_reset_where_they_shall_be(self):
        self.serve(LIMIT, Flag.RESET)
        there, reset = self.connect(CLIENTS, 3)
        self.assertEqual((LIMIT, CLIENTS - LIMIT), (len(there), len(reset)))
        self.assert_true_count(LIMIT)
        self.assertEqual(CLIENTS - LIMIT,
                         self.outcomes(datapath.Outcome.SENT_RESET))

    def test_connections_that_end_give_their_places_to_others(self):
        self.serve(LIMIT, Flag.RESET)
        self.connect(CLIENTS, 3)
        self.assert_true_count(LIMIT)
        self.close_all()
        self.wait('no connection left',
                  lambda: self.open_connections() == 0)
        there, _ = self.connect(CLIENTS, 3)
        self.assertEqual(LIMIT, len(there))
        self.assert_true_count(LIMIT, ended=LIMIT)

    def test_the_limit_changes_and_goes_under_connections(self):
        self.serve(LIMIT, Flag.RESET)
        self.connect(CLIENTS, 3)
        self.assert_true_count(LIMIT)
        self.serve(2 * LIMIT, Flag.RESET)
        self.assertEqual(LIMIT, self.open_connections())
        there, _ = self.connect(CLIENTS, 3)
        self.assertEqual(LIMIT, len(there))
        self.assert_true_count(2 * LIMIT)
        # Less than there are: nobody is put out.
        self.serve(2, Flag.RESET)
        there, reset = self.connect(5, 3)
        self.assertEqual((0, 5), (len(there), len(reset)))
        for one in self.held:
            one.sendall(b'x')
        for one in self.accepted:
            self.assertEqual(b'x', one.recv(1))
        self.serve(0)
        there, _ = self.connect(CLIENTS, 3)
        self.assertEqual(CLIENTS, len(there))
        self.assertEqual(2 * LIMIT + CLIENTS, len(self.accepted))
