# SPDX-License-Identifier: Apache-2.0
"""Connections of VMs on two hypervisors when LB nodes send to the other one
first; servers and clients are those of the kernel."""

import fcntl
import socket
import struct
import termios

from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import hypervisor
from octavia_xdp_provider.tests.functional.support import two_hypervisors

OWN, OTHER = 0, 1


class TestSecondChance(two_hypervisors.TwoHypervisors):

    def each(self):
        for kind in two_hypervisors.ENDS:
            for version in hypervisor.FAMILIES:
                self.kind, self.order = kind, (OWN,)
                yield version, self.subTest(kind=kind, version=version)

    def wait_for_acknowledgement(self, connection):
        """What it sent again would bring its flow back."""
        self.wait('acknowledgement', lambda: not any(
            struct.unpack('i', fcntl.ioctl(connection, termios.TIOCOUTQ,
                                           bytes(4)))))

    def test_connections_go_on_at_the_hypervisor_that_has_them(self):
        servers = {version: self.server(self.vm, version)
                   for version in hypervisor.FAMILIES}
        for version, case in self.each():
            with case:
                client, server = self.connect(servers[version], version)
                self.exchange(client, server)
                before = (self.counted(OTHER, 'HANDED_ON'),
                          self.counted(OWN, 'SECOND_CHANCE'))
                self.order = OTHER, OWN
                self.exchange(client, server)
                client.sendall(bytes(1 << 16))
                left = 1 << 16
                while left:
                    left -= len(server.recv(left))
                client.close()
                self.assertEqual(b'', server.recv(1))
                handed_on = self.counted(OTHER, 'HANDED_ON') - before[0]
                taken = self.counted(OWN, 'SECOND_CHANCE') - before[1]
                self.assertGreater(handed_on, 1)
                self.assertEqual(handed_on, taken)
        self.assertEqual([], self.hosts[OTHER].port_flows(self.other_vm.port))

    def test_new_connections_are_opened_where_they_are_sent(self):
        servers = {version: self.server(self.other_vm, version)
                   for version in hypervisor.FAMILIES}
        for version, case in self.each():
            with case:
                self.order = OTHER, OWN
                self.exchange(*self.connect(servers[version], version))
        self.assertEqual(0, self.counted(OTHER, 'HANDED_ON'))
        self.assertEqual(0, self.counted(OWN, 'SECOND_CHANCE'))

    def test_what_nobody_knows_reaches_no_vm(self):
        """A hypervisor that has forgotten; the VM has the connection."""
        for version, case in self.each():
            with case:
                server = self.server(self.vm, version)
                client, accepted = self.connect(server, version)
                self.exchange(client, accepted)
                server.close()
                self.wait_for_acknowledgement(accepted)
                self.hosts[OWN].delete_port(self.vm.port)
                self.plug(self.vm, (fabric.VIP, fabric.VIP6))
                before = self.counted(OWN, 'DROP_UNKNOWN')
                self.order = OTHER, OWN
                client.sendall(b'question')
                client.settimeout(0.3)
                self.assertRaises(TimeoutError, client.recv, 1)
                accepted.settimeout(0)
                self.assertRaises(BlockingIOError, accepted.recv, 1)
                self.assertGreater(self.counted(OWN, 'DROP_UNKNOWN'), before)
                accepted.close()

    def test_a_hypervisor_opens_no_connection_at_another(self):
        """What one that was taken over could send: as an LB node does, but
        from its own address."""
        server = self.server(self.vm, 4)
        self.order = (OWN,)
        self.through_node = lambda frame: self.encapsulated(
            frame[14:], (OWN,), two_hypervisors.OTHER)
        client = self.socket(self.client, socket.AF_INET,
                             socket.SOCK_STREAM)
        client.settimeout(1.5)
        self.assertRaises(TimeoutError, client.connect,
                          (fabric.VIP, hypervisor.LISTENER))
        server.settimeout(0)
        self.assertRaises(BlockingIOError, server.accept)
        self.assertGreater(self.counted(OWN, 'DROP_UNKNOWN'), 0)
        self.assertEqual([], self.hosts[OWN].port_flows(self.vm.port))

    def test_without_networks_of_peers_nothing_is_handed_on(self):
        """The VM gets it, and resets what it does not know."""
        self.hosts[OTHER].set_peers(())
        client, _ = self.connect(self.server(self.vm, 4), 4)
        self.order = OTHER, OWN
        client.sendall(b'question')
        self.assertRaises(ConnectionResetError, client.recv, 1)
        self.assertGreater(self.counted(OTHER, 'KEPT'), 0)
        self.assertEqual(0, self.counted(OTHER, 'HANDED_ON'))
