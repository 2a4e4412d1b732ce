# SPDX-License-Identifier: Apache-2.0
"""Datagrams that are larger than the way: in fragments to unmodified VMs, and
back."""

import contextlib
import secrets
import socket

from lab import namespaces
from lab.fabric import capture
from lab.fabric import client
from lab.fabric import links
from lab.ovn import hypervisors
from octavia_xdp_provider.tests.e2e.support import zero_touch

# Neutron's, of an underlay of 1500: 58 bytes are for OVN's own tunnels.
VM_MTU = 1442
# IP and UDP. What a fragment carries is as much less than VM_MTU, or more.
HEADERS = {4: 20 + 8, 6: 40 + 8}
PATH_MTU = {4: (socket.IPPROTO_IP, client.IP_MTU),
            6: (socket.IPPROTO_IPV6, client.IPV6_MTU)}
FRAGMENTS = {4: 'ip[6:2] & 0x3fff != 0', 6: 'ip6[6] == 44'}
# Bytes of a datagram → fragments that it takes, and its answer, which is a
# name longer.
LENGTHS = {2000: 2, 4000: 3, 20000: 15}
TRY_S = 2


class TestFragments(zero_touch.ZeroTouchTestCase):

    def test_datagrams_in_fragments_reach_a_vm_and_are_answered_so(self):
        self.start_echo('red')
        for version in PATH_MTU:
            self.allow_echo('red', version)
            # The first is reached by SRv6, the second by Geneve.
            for host in hypervisors.NAMES:
                balancer = self.echo_balancer('red', host, version)
                with self.subTest(version=version, host=host):
                    self.check(balancer, host, version)
                self.delete_balancer(balancer)

    def check(self, balancer, host, version):
        before = self.packets(balancer, host)
        with (self.captured(balancer, version) as taken,
              self.connected(balancer, version) as one):
            self.learn(one, version)
            for length in LENGTHS:
                self.exchange(one, self.vms['red', host], length)
        # Those of a datagram that was sent again come on top.
        least = sum(LENGTHS.values())
        for outgoing in True, False:
            self.assertGreaterEqual(
                sum(packet.outgoing == outgoing for packet in taken.packets),
                least)
        for now, then in zip(self.packets(balancer, host), before,
                             strict=True):
            self.assertGreaterEqual(now - then, least)

    def captured(self, balancer, version):
        """Fragments from the VIP and to it, at the client."""
        return capture.Capture(
            self.lab, client.CLIENT, links.UPLINK,
            f'host {balancer.vip_address} and {FRAGMENTS[version]}')

    def packets(self, balancer, host):
        """What its hypervisor has let in and out of it."""
        row, = self.entries(balancer)[host]
        return row['packets_in'], row['packets_out']

    @contextlib.contextmanager
    def connected(self, balancer, version):
        """A socket of the client's."""
        with namespaces.inside(self.lab, client.CLIENT):
            one = socket.socket(
                {4: socket.AF_INET, 6: socket.AF_INET6}[version],
                socket.SOCK_DGRAM)
        with one:
            one.connect((balancer.vip_address, zero_touch.PORT))
            one.settimeout(TRY_S)
            yield one

    def learn(self, one, version):
        """Until the client knows the path, of which it is told when it sends
        what may not be fragmented."""
        def known():
            with contextlib.suppress(OSError):  # it is told in this way, too
                one.send(bytes(links.CLIENT_MTU - HEADERS[version]))
            return one.getsockopt(*PATH_MTU[version]) == VM_MTU
        self.wait(f'path MTU of {VM_MTU}', known)

    def exchange(self, one, vm, length):
        content = secrets.token_bytes(length)
        wanted = vm.encode() + b' ' + content

        def answered():
            with contextlib.suppress(OSError):  # none in time
                one.send(content)
                while True:
                    # There may be those of what was sent before.
                    if one.recv(65535) == wanted:
                        return True
            return False
        self.wait(f'an answer of {length} bytes', answered)
