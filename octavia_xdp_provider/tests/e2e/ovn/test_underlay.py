# SPDX-License-Identifier: Apache-2.0
"""Paths to unmodified VMs: what fits through them, and their IP version."""

import hashlib
import json
import uuid

from lab import paths
from lab import processes
from lab.fabric import capture
from lab.fabric import client
from lab.fabric import download
from lab.fabric import links
from lab.fabric import nginx
from lab.fabric import topology
from lab.fabric import upload
from lab.ovn import hypervisors
from octavia_xdp_provider.tests.e2e.support import zero_touch

BYTES = 16 * 1024 * 1024
# Neutron's, of an underlay of 1500: 58 bytes are for OVN's own tunnels.
VM_MTU = 1442
SMALL_MTU = 1400
# Bytes of SRv6's outer header, by which hv1 is reached.
SRV6 = 40


class TestUnderlay(zero_touch.ZeroTouchTestCase):

    def shrink(self, host):
        """Let an underlay carry less for the rest of the test."""
        self.addCleanup(links.set_mtu, self.lab, host, links.UPLINK,
                        hypervisors.MTU)
        links.set_mtu(self.lab, host, links.UPLINK, SMALL_MTU)

    def wait_path(self, balancer, mtu):
        """Wait until both LB nodes know what the path to a member carries.

        :param mtu: with the outer headers.
        """
        for node in topology.NODES:
            self.wait(f'MTU of {mtu} on {node}', lambda node=node: (
                self.path(node, balancer) == [mtu]))

    def path(self, node, balancer):
        with self.datapath(node) as opened:
            return [state.mtu
                    for state in opened.members(self.key(balancer))]

    def check_transfers(self, balancer, vm):
        """Files arrive as they are, both ways."""
        content = uuid.uuid4().bytes * (BYTES // 16)
        wanted = hashlib.sha256(content).hexdigest()
        directory = nginx.files(self.lab, vm)
        (directory / 'large').write_bytes(content)
        with download.Download(self.lab, balancer.vip_address,
                               zero_touch.PORT, '/large') as down:
            pass
        self.assertEqual((None, wanted), (down.problem, down.checksum))
        with upload.Upload(self.lab, balancer.vip_address, zero_touch.PORT,
                           '/taken', content) as up:
            pass
        self.assertEqual((None, wanted), (up.problem, self.taken(vm)))

    def taken(self, vm):
        """The checksum of what was uploaded to a VM."""
        return hashlib.sha256(
            (nginx.files(self.lab, vm) / 'taken').read_bytes()).hexdigest()

    def test_files_pass_a_small_underlay_both_ways(self):
        for host in hypervisors.NAMES:
            self.shrink(host)
        for version in (4, 6):
            for host in hypervisors.NAMES:
                balancer = self.balancer('red', version, hosts=[host])
                self.wait_path(balancer, SMALL_MTU)
                self.check_transfers(balancer, self.vms['red', host])
                self.delete_balancer(balancer)

    def test_an_upload_goes_on_when_the_underlay_carries_less(self):
        vm = self.vms['red', 'hv1']
        limit = SMALL_MTU - SRV6
        for version in (4, 6):
            balancer = self.balancer('red', version, hosts=['hv1'])
            # What the last one left may not be forgotten yet.
            self.wait_path(balancer, VM_MTU + SRV6)
            content = uuid.uuid4().bytes * (BYTES // 16)
            with upload.Upload(self.lab, balancer.vip_address,
                               zero_touch.PORT, '/taken', content) as up:
                self.wait('its begin', lambda up=up: up.moved)
                self.assertIsNone(self.learned(balancer))
                self.shrink('hv1')
                self.wait_path(balancer, SMALL_MTU)
                self.assertLess(up.moved, len(content))
            self.assertIsNone(up.problem)
            self.assertEqual(hashlib.sha256(content).hexdigest(),
                             self.taken(vm))
            self.assertEqual(limit, self.learned(balancer))
            self.delete_balancer(balancer)
            links.set_mtu(self.lab, 'hv1', links.UPLINK, hypervisors.MTU)

    def learned(self, balancer):
        """The path MTU to a VIP that the client was told, or None."""
        done = processes.run(self.lab, client.CLIENT, [
            'ip', '-j', 'route', 'get', balancer.vip_address])
        route, = json.loads(done.stdout)
        return next((metric['mtu'] for metric in route.get('metrics', ())
                     if 'mtu' in metric), None)

    def test_members_are_reached_by_geneve_over_ipv6(self):
        for host in hypervisors.NAMES:
            self.use_way(host, 'geneve', hypervisors.UNDERLAY_V6)
        for version in (4, 6):
            balancer = self.balancer('red', version)
            self.assertEqual({'geneve'}, {
                row['encapsulation']
                for row in self.listed(balancer).values()})
            with (self.captured('hv1') as first,
                  self.captured('hv2') as second):
                answered = self.served(balancer, 'red')
            for host, taken in (('hv1', first), ('hv2', second)):
                self.assertTrue(taken.packets)
                self.assertIn(self.vms['red', host], answered)
            self.delete_balancer(balancer)

    def captured(self, host):
        """Packets of Geneve from LB nodes to a hypervisor's IPv6 address."""
        address = paths.underlay_address_v6(paths.number(host))
        return capture.Capture(
            self.lab, host, hypervisors.UNDERLAY_V6,
            f'src net {paths.UPLINK_NETWORK_V6} and dst host {address} and '
            'udp dst port 6081')
