# SPDX-License-Identifier: Apache-2.0
"""Spoofed ICMP errors towards a VIP, far more than a network has of them.

They quote packets of real connections and of none, as somebody does who
wants to end other people's connections or to keep a node busy.
"""

import random
import socket
import threading

from scapy.layers import inet
from scapy.packet import Raw

from lab import namespaces
from lab import paths
from lab.fabric import client
from lab.fabric import connections
from lab.fabric import topology
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.support import form

CONNECTIONS = 40
ERRORS = 200_000
# Type and code: unreachable (net, host, protocol, port, too big, prohibited),
# source quench, time exceeded, parameter problem.
KINDS = ((3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (3, 13), (4, 0), (11, 0),
         (12, 0))
ROUNDS = 4


class Storm(threading.Thread):
    """Sends errors about connections, over and over, until it has enough.

    :param ports: of the client's ends. Every third error quotes a port of
        the VIP at which nothing listens.
    """

    def __init__(self, lab, vip, ports, number):
        super().__init__()
        self._lab = lab
        self._vip = vip
        self._number = number
        self._errors = [self._error(kind, port, service)
                        for port in ports for kind in KINDS
                        for service in (80, 80, 81)]
        random.Random(1).shuffle(self._errors)
        self.unknown = 0

    def _error(self, kind, port, service):
        quoted = inet.IP(src=self._vip, dst=paths.CLIENT_ADDRESS) / inet.TCP(
            sport=service, dport=port, seq=random.getrandbits(32))
        error = inet.IP(src='198.51.100.77', dst=self._vip) / inet.ICMP(
            type=kind[0], code=kind[1], nexthopmtu=68) / Raw(
                bytes(quoted)[:28])
        return service, bytes(error)

    def run(self):
        with namespaces.inside(self._lab, client.CLIENT), socket.socket(
                socket.AF_INET, socket.SOCK_RAW,
                socket.IPPROTO_RAW) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            for number in range(self._number):
                service, packet = self._errors[number % len(self._errors)]
                sender.sendto(packet, (self._vip, 0))
                self.unknown += service == 81


@form.in_long_form
class TestIcmpStorm(base.LabTestCase):

    def dropped(self):
        """Errors about nothing that ended at the nodes."""
        found = 0
        for node in topology.NODES:
            with self.datapath(node) as opened:
                found += opened.outcomes()[
                    datapath.Outcome.DROP_ICMP].packets
        return found

    def test_spoofed_errors_break_no_connection(self):
        balancer, *_ = self.create_web()
        dropped = self.dropped()
        with connections.Connections(
                self.lab, balancer.vip_address, number=CONNECTIONS,
                timeout=30) as alive:
            before = alive.ask()
            self.assertEqual(set(topology.MEMBERS), set(before))
            storm = Storm(self.lab, balancer.vip_address, alive.ports,
                          ERRORS)
            storm.start()
            for _ in range(ROUNDS):
                self.assertEqual(before, alive.ask())
            # New connections meanwhile.
            answers = client.requests(self.lab, self.url(balancer),
                                      number=CONNECTIONS)
            self.assertEqual([], answers.failures)
            storm.join()
            self.assertEqual(before, alive.ask())
        # It did reach the nodes; some of it a full queue may have lost.
        self.wait('most of the storm', lambda: (
            self.dropped() - dropped > storm.unknown // 2))
        for node in topology.NODES:
            self.assertEqual(len(topology.MEMBERS),
                             self.enabled(node, balancer), node)
        self.wait_routes(balancer)
