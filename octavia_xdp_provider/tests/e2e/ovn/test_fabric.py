# SPDX-License-Identifier: Apache-2.0
"""The lab's OVN is one: what its tenants can and cannot do.

Nothing here is the provider's. It shows that what is tested in this lab meets
real security groups, port security, routers and overlapping networks.
"""

import hashlib
import socket
import threading

from lab import namespaces
from lab import paths
from lab import processes
from lab.fabric import client
from lab.fabric import download
from lab.fabric import nginx
from lab.ovn import hypervisors
from lab.ovn import vms
from octavia_xdp_provider.tests.e2e.support import tenants

HTTP, ECHO = vms.HTTP_PORT, 7777
# Of the VIPs' network, and of no host.
FOREIGN = str(paths.VIP_NETWORK[250])
BYTES = 16 * 1024 * 1024


class TestFabric(tenants.TenantsTestCase):

    def pair(self, color):
        return [self.vms[color, name] for name in hypervisors.NAMES]

    def test_vms_of_one_tenant_reach_each_other_over_two_hypervisors(self):
        for color in 'red', 'blue':
            first, second = self.pair(color)
            for addresses in self.ADDRESSES, self.ADDRESSES_V6:
                self.assertTrue(self.ping(first, addresses['hv2']))
                # The other tenant's server has this very address and port.
                self.assertEqual(second,
                                 self.curl(first, addresses['hv2']))

    def test_an_address_comes_from_ovns_dhcp(self):
        vm, _ = self.pair('red')
        done = processes.run(self.lab, vm, [
            'busybox', 'udhcpc', '-i', vms.NIC, '-n', '-q', '-f', '-s',
            '/bin/true'])
        self.assertIn(f'lease of {self.ADDRESSES["hv1"]} obtained from '
                      '10.0.0.1', done.stdout + done.stderr)

    def test_a_security_group_lets_in_what_its_rules_name(self):
        first, second = self.pair('red')
        neutron, port = self.cloud.network, self.ports[second]
        group = neutron.create_security_group(
            name=self.unique('closed'),
            project_id=self.tenants['red'].project_id)
        self.addCleanup(neutron.delete_security_group, group)
        self.addCleanup(neutron.update_port, port.id,
                        security_groups=port.security_group_ids)
        neutron.update_port(port.id, security_groups=[group.id])
        address = self.ADDRESSES['hv2']
        self.wait('end of answers', lambda: self.curl(
            first, address, timeout=1) is None)
        rule = neutron.create_security_group_rule(
            security_group_id=group.id, direction='ingress',
            protocol='tcp', port_range_min=HTTP, port_range_max=HTTP)
        self.wait('answer', lambda: self.curl(
            first, address, timeout=1) == second)
        self.assertFalse(self.ping(first, address))
        neutron.delete_security_group_rule(rule)
        self.wait('end of answers', lambda: self.curl(
            first, address, timeout=1) is None)

    def test_port_security_drops_a_foreign_source(self):
        first, second = self.pair('blue')
        neutron, port = self.cloud.network, self.ports[first]
        # Of any address: the group's own rule is for its members' alone.
        rule = self.cloud.allow(self.tenants['blue'], 'udp', ECHO)
        self.addCleanup(neutron.delete_security_group_rule, rule)
        namespaces.address(self.lab, first, vms.NIC, f'{FOREIGN}/32')
        own = self.ADDRESSES['hv1']
        with self.udp(second, '0.0.0.0') as server:
            self.wait('a datagram', lambda: self.arrive(
                first, server, own)[-1:] == [own])
            self.assertEqual([own], self.arrive(first, server, FOREIGN, own))
            self.addCleanup(
                neutron.update_port, port.id, is_port_security_enabled=True,
                security_groups=port.security_group_ids)
            neutron.update_port(port.id, is_port_security_enabled=False,
                                security_groups=[])
            self.wait('a datagram from a foreign source', lambda: (
                FOREIGN in self.arrive(first, server, FOREIGN, own)))

    def test_tenants_leave_by_their_routers_address(self):
        listener = self.server()
        seen = {}
        for color in 'red', 'blue':
            vm = self.vms[color, 'hv2']
            threading.Thread(target=lambda vm=vm: self.curl(
                vm, paths.CLIENT_ADDRESS, port=ECHO, timeout=20)).start()
            one, (address, _port) = listener.accept()
            with one:
                one.recv(4096)
                one.sendall(b'HTTP/1.0 200 OK\r\n\r\nhere\n')
            router = self.cloud.network.get_router(
                self.tenants[color].router_id)
            self.assertEqual(
                [address], [fixed['ip_address'] for fixed in
                            router.external_gateway_info[
                                'external_fixed_ips']])
            seen[color] = address
        self.assertNotEqual(seen['red'], seen['blue'])

    def test_a_vm_that_is_moved_keeps_its_connections(self):
        first, second = self.pair('red')
        port = self.ports[second]
        content = b'%d' % id(self) * (BYTES // 8)
        (nginx.files(self.lab, second) / 'large').write_bytes(content)
        with download.Download(self.lab, self.ADDRESSES['hv2'], HTTP, '/large',
                               first) as transfer:
            self.wait('its begin', lambda: transfer.moved, interval=0.05)
            vms.migrate(self.lab, second, 'hv1',
                        lambda: self.cloud.bind(port, 'hv1'))
            self.addCleanup(vms.migrate, self.lab, second, 'hv2',
                            lambda: self.cloud.bind(port, 'hv2'))
            self.assertLess(transfer.moved, len(content))
        self.assertIsNone(transfer.problem)
        self.assertEqual(hashlib.sha256(content).hexdigest(),
                         transfer.checksum)
        self.assertEqual('hv1', self.cloud.network.get_port(
            port.id).binding_host_id)
        self.wait('an answer', lambda: second == self.curl(
            first, self.ADDRESSES['hv2']))

    # What they use

    def udp(self, vm, address, port=ECHO):
        with namespaces.inside(self.lab, vm):
            one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.bind((address, port))
        one.settimeout(2)
        return one

    def arrive(self, vm, server, *sources):
        """Of a datagram from each source, the sources of those that arrive.

        They take one way, and the last is from an address that may.
        """
        mark = self.unique('').encode()
        for source in sources:
            with self.udp(vm, source, 0) as one:
                one.sendto(mark, (self.ADDRESSES['hv2'], ECHO))
        found = []
        try:
            while sources[-1] not in found:
                text, (source, _port) = server.recvfrom(100)
                if text == mark:
                    found.append(source)
        except TimeoutError:
            pass
        return found

    def server(self):
        """A listening socket of the client."""
        with namespaces.inside(self.lab, client.CLIENT):
            listener = socket.create_server((paths.CLIENT_ADDRESS, ECHO))
        listener.settimeout(20)
        self.addCleanup(listener.close)
        return listener
