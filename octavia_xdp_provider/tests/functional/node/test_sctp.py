# SPDX-License-Identifier: Apache-2.0
"""Associations of the kernel's SCTP through a node to two members. Where the
kernel has no SCTP these tests are skipped.

    client --- r1 --- node      r1 routes; members answer past the node
                |
             m1, m2
"""

import contextlib
import errno
import select
import socket
import threading

from lab import namespaces
from lab import processes
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import frames
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support import routed

NODE, R1 = routed.NODE, routed.ROUTERS[0]
MEMBERS = {'m1': ('198.18.1.11', '2001:db8:11::11'),
           'm2': ('198.18.2.11', '2001:db8:12::11')}
PORT = 2905
FAMILIES = {socket.AF_INET: (frames.CLIENT, frames.VIP),
            socket.AF_INET6: (frames.CLIENT_V6, frames.VIP_V6)}
ASSOCIATIONS = 12


class TestSctp(routed.MonitoredUplinks):

    def setUp(self):
        super().setUp()
        try:
            socket.socket(socket.AF_INET, socket.SOCK_STREAM,
                          socket.IPPROTO_SCTP).close()
        except OSError as error:
            if error.errno != errno.EPROTONOSUPPORT:
                raise
            self.skipTest('the kernel has no SCTP')
        self.add_behind(R1, 'client', (frames.CLIENT, '192.0.2.1'),
                        (frames.CLIENT_V6, '2001:db8:c::1'))
        for name, (v4, v6) in MEMBERS.items():
            self.add_behind(R1, name, (v4, v4[:-1]), (v6, v6[:-1]))
            for vip in (frames.VIP, frames.VIP_V6):
                self.ip(name, 'address', 'add', vip, 'dev', 'lo',
                        *(['nodad'] if ':' in vip else []))
            self.member_tool(name, '--vip', frames.VIP, '--vip', frames.VIP_V6,
                             '--node', '198.51.101.2', '--node',
                             '2001:db8:1::2', 'eth0')
        self.fill_in('client', 'eth0')
        # Any program does, so that veth takes frames of the node's program.
        self.member_tool(R1, '--any-source', 'node')
        namespaces.sysctl(self.lab, R1, net__ipv4__ip_forward=1,
                          net__ipv6__conf__all__forwarding=1)
        for vip, node in ((frames.VIP, '198.51.101.2'),
                          (frames.VIP_V6, '2001:db8:1::2')):
            self.ip(R1, 'route', 'add', vip, 'via', node)
        self.start('uplinks = eth1\n')
        self.wait_next_hops(('eth1', 4), ('eth1', 6))
        for position, vip in enumerate((frames.VIP, frames.VIP_V6)):
            self.datapath.set_service(
                datapath.Key(vip, 'SCTP', PORT),
                [datapath.Member(addresses[position])
                 for addresses in MEMBERS.values()],
                datapath.Settings(slots=1009))

    def member_tool(self, host, *words):
        processes.run(self.lab, host, [
            private_node.BUILD / 'octavia-xdp-member', 'setup', *words])

    def socket(self, host, family):
        with namespaces.inside(self.lab, host):
            opened = socket.socket(family, socket.SOCK_STREAM,
                                   socket.IPPROTO_SCTP)
        self.addCleanup(opened.close)
        opened.settimeout(self.SOON)
        return opened

    def serve(self, host, family):
        """Answer with the member's name and what was asked."""
        listener = self.socket(host, family)
        listener.bind((FAMILIES[family][1], PORT))
        listener.listen(ASSOCIATIONS)
        stop, end = socket.socketpair()
        self.addCleanup(stop.close)
        thread = threading.Thread(
            target=self.answer, args=(listener, stop, host.encode()),
            daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(end.close)

    def answer(self, listener, stop, name):
        with contextlib.ExitStack() as stack:
            while True:
                readable, _, _ = select.select([listener, stop], [], [])
                if stop in readable:
                    return
                accepted, _ = listener.accept()
                stack.callback(accepted.close)
                thread = threading.Thread(target=self.echo,
                                          args=(accepted, name), daemon=True)
                thread.start()

    @staticmethod
    def echo(accepted, name):
        with contextlib.suppress(OSError):
            while data := accepted.recv(4096):
                accepted.send(name + b' ' + data)

    def test_associations_reach_every_member(self):
        for family, (client, vip) in FAMILIES.items():
            with self.subTest(vip):
                for host in MEMBERS:
                    self.serve(host, family)
                self.associate(family, client, vip)

    def associate(self, family, client, vip):
        took = []
        clients = []
        for number in range(ASSOCIATIONS):
            opened = self.socket('client', family)
            opened.bind((client, 40000 + number))
            opened.connect((vip, PORT))
            clients.append(opened)
        for turn in range(3):
            for number, opened in enumerate(clients):
                question = b'question %d of %d' % (turn, number)
                opened.send(question)
                name, _, echo = opened.recv(4096).partition(b' ')
                self.assertEqual(question, echo)
                took.append(name.decode())
        first = took[:ASSOCIATIONS]
        self.assertEqual(set(MEMBERS), set(first))
        # Each stays where it began.
        self.assertEqual(3 * first, took)
        key = datapath.Key(vip, 'SCTP', PORT)
        self.assertGreaterEqual(self.datapath.service(key).counters.flows,
                                ASSOCIATIONS)
        for position, member in enumerate(self.datapath.members(key)):
            self.assertGreater(member.counters.packets,
                               3 * first.count(f'm{position + 1}'))
