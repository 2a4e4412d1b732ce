# SPDX-License-Identifier: Apache-2.0
"""VMs with jumbo frames behind an underlay that has none.

Real sockets, and kernels that look at what they are told. What the answers are
made of differs: whole packets, segments that a device would separate, and
checksums that it would make.
"""

import errno
import os
import select
import socket
import threading

from lab import namespaces
from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import hypervisor
from octavia_xdp_provider.tests.functional.support.hypervisor import FAMILIES
from octavia_xdp_provider.tests.support import form

JUMBO, UNDERLAY, SMALL = 9000, 1500, 1400
BYTES = 8 << 20
# linux/in.h, linux/in6.h
DISCOVER = {4: (socket.IPPROTO_IP, 10), 6: (socket.IPPROTO_IPV6, 23)}
PATH_MTU = {4: (socket.IPPROTO_IP, 14), 6: (socket.IPPROTO_IPV6, 24)}
WANT = 1


class TestTooBig(hypervisor.HypervisorWithVm):

    def setUp(self):
        super().setUp()
        for namespace, interface in (
                (self.member, self.vm.tap), (self.vm.namespace, 'eth0'),
                (self.client, 'lan0'), (self.client, 'lan1')):
            self.set_mtu(namespace, interface, JUMBO)
        for entry in self.vm.entries((fabric.VIP, fabric.VIP6)):
            self.host.set_entry(entry._replace(mss=0))

    def set_mtu(self, namespace, interface, mtu):
        fabric.command('ip', '-n', namespace, 'link', 'set', interface, 'mtu',
                       str(mtu))

    def shrink(self, mtu):
        """The underlay; the hypervisor's agent has noticed."""
        for namespace, interface in ((self.client, 'gw0'),
                                     (self.member, 'eth0')):
            self.set_mtu(namespace, interface, mtu)
        with namespaces.entered(self.member):
            self.host.set_settings(types.Settings(
                self.nic, fabric.OWN, fabric.OWN6, hypervisor.SID))

    def outcomes(self):
        return {outcome.name: packets for outcome, packets
                in self.host.outcomes().items()
                if packets and 'TOO_BIG' in outcome.name}

    def download(self, version):
        """Bytes as they were sent; how many answers were too big."""
        before = self.outcomes()
        server = self.server(self.vm, version)
        client, accepted = self.connect(server, version)
        data = os.urandom(BYTES)
        thread = threading.Thread(target=accepted.sendall, args=(data,))
        thread.start()
        got = bytearray()
        while len(got) < len(data):
            part = client.recv(1 << 20)
            self.assertTrue(part)
            got += part
        thread.join()
        self.assertEqual(data, bytes(got))
        server.close()
        after = self.outcomes()
        self.assertEqual(before.get('DROP_TOO_BIG'),
                         after.get('DROP_TOO_BIG'))
        return after.get('SENT_TOO_BIG', 0) - before.get('SENT_TOO_BIG', 0)

    def path_mtu(self, version):
        """Return the path MTU to the client in the VM's kernel."""
        family, client = ((socket.AF_INET, fabric.CLIENT) if version == 4
                          else (socket.AF_INET6, fabric.CLIENT6))
        with self.socket(self.vm.namespace, family,
                         socket.SOCK_DGRAM) as client_socket:
            client_socket.connect((client, 9))
            return client_socket.getsockopt(*PATH_MTU[version])

    def forget(self):
        """Remove the path MTUs that the VM has learned."""
        for version in FAMILIES:
            self.run_in(self.vm.namespace, 'ip', f'-{version}', 'route',
                        'flush', 'cache')

    def test_download_goes_on_with_what_fits(self):
        for mtu in (UNDERLAY, SMALL):
            self.shrink(mtu)
            for version in FAMILIES:
                with self.subTest(mtu=mtu, version=version):
                    self.assertEqual(JUMBO, self.path_mtu(version))
                    self.assertGreater(self.download(version), 0)
                    self.assertEqual(mtu, self.path_mtu(version))
                    # known by then
                    self.assertEqual(0, self.download(version))
            self.forget()

    @form.in_long_form
    def test_kernel_verifies_checksums_that_are_made_after_the_answer(self):
        """The tap makes what the VM left to it, of the quote; and the VM
        makes all of them, and separates segments."""
        for namespace, interface in ((self.member, self.vm.tap),
                                     (self.vm.namespace, 'eth0')):
            self.offloads(namespace, interface, 'tx', 'off')
            for version in FAMILIES:
                with self.subTest(of=interface, version=version):
                    self.assertGreater(self.download(version), 0)
                    self.assertEqual(UNDERLAY, self.path_mtu(version))
            self.forget()
        for name in 'Icmp: InCsumErrors', 'Icmp6InCsumErrors':
            self.assertEqual(0, self.statistic(name))

    def statistic(self, name):
        """Return a counter of the VM's kernel."""
        if name.startswith('Icmp6'):
            lines = self.run_in(self.vm.namespace, 'cat', '/proc/net/snmp6')
            return int(dict(line.split() for line in
                            lines.splitlines())[name])
        lines = self.run_in(self.vm.namespace, 'cat', '/proc/net/snmp')
        head, word = name.split()
        names, values = [line.split() for line in lines.splitlines()
                         if line.startswith(head)]
        return int(dict(zip(names, values, strict=True))[word])

    def datagrams(self, version):
        """The VM's socket, as a client knows it, and the client's."""
        family, vip, _ = FAMILIES[version]
        server = self.server(self.vm, version, socket.SOCK_DGRAM)
        server.setsockopt(*DISCOVER[version], WANT)
        client = self.socket(self.client, family, socket.SOCK_DGRAM)
        client.connect((vip, hypervisor.LISTENER))
        client.send(b'question')
        server.connect(server.recvfrom(100)[1][:2])
        return server, client

    def error_of(self, opened):
        """Return the errors that the kernel has queued for sent packets."""
        poll = select.poll()
        poll.register(opened, 0)
        self.assertTrue(poll.poll(120000))
        return opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def test_datagram_that_may_is_fragmented_by_the_vm(self):
        for version in FAMILIES:
            server, client = self.datagrams(version)
            server.send(bytes(4000))
            self.assertEqual(errno.EMSGSIZE, self.error_of(server))
            server.send(b'y' * 4000)
            self.assertEqual(b'y' * 4000, client.recv(JUMBO))
            server.close()
        self.assertEqual({'SENT_TOO_BIG': 2}, self.outcomes())
