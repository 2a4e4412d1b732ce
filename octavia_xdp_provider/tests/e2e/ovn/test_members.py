# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-manage shows where real members are, in a real Neutron."""

import json
import pathlib

from lab import paths
from lab import processes
from lab.control import octavia
from lab.ovn import vms
from octavia_xdp_provider.tests.e2e.support import tenants

PROGRAM = paths.VENV / 'bin' / 'octavia-xdp-manage'
NOBODY = '10.0.0.99'


class TestMembers(tenants.TenantsTestCase):

    def create(self, color):
        """A load balancer of a tenant, with members in its subnet."""
        tenant = self.tenants[color]
        self.sdk = self.connection(tenant.name).load_balancer
        balancer = self.create_balancer(listeners=self.listeners(
            ({'address': address, 'protocol_port': vms.HTTP_PORT,
              'subnet_id': tenant.subnet_id}
             for address in (*self.ADDRESSES.values(), NOBODY)),
            vms.HTTP_PORT))
        # Cleaned up as it was made.
        self.addCleanup(setattr, self, 'sdk', self.sdk)
        return balancer

    def command(self, *words):
        return [PROGRAM, '--config-file',
                octavia.provider_configuration(self.lab), *words]

    def listed(self, balancer):
        done = processes.run(self.lab, paths.CONTROL, self.command(
            'lb', 'members', balancer.id, '-f', 'json'))
        return {entry['address']: entry for entry in json.loads(done.stdout)}

    def test_tenants_with_the_same_addresses_are_told_apart(self):
        for color in 'red', 'blue':
            shown = self.listed(self.create(color))
            for hypervisor, address in self.ADDRESSES.items():
                vm = self.vms[color, hypervisor]
                port = self.ports[vm]
                self.assertEqual(
                    (port.id, hypervisor, 'ACTIVE', 1442, True, '',
                     self.tenants[color].security_group_id),
                    tuple(shown[address][name] for name in (
                        'port', 'hypervisor', 'status', 'mtu', 'has_tap',
                        'reason', 'security_groups')))
                self.assertTrue(shown[address]['gateway_mac'])
            self.assertEqual((None, False, 'none'), tuple(
                shown[NOBODY][name] for name in ('port', 'has_tap', 'way')))
            self.assertIn('no port', shown[NOBODY]['reason'])
            # It may be another server's on the fabric.
            self.assertIn('[members] allowed_networks', shown[NOBODY]['why'])

    def test_what_changes_is_seen(self):
        balancer = self.create('red')
        vm = self.vms['red', 'hv2']
        port = self.ports[vm]
        name = self.unique('watch')
        process = processes.start(
            self.lab, paths.CONTROL, name, self.command(
                'lb', 'watch-members', balancer.id, '--interval', '0.2'))
        self.addCleanup(processes.stop, self.lab, name)

        def seen(text):
            self.wait(text, lambda: any(
                port.id in line and text in line for line in
                pathlib.Path(process.log).read_text().splitlines()))
        seen('on hv2, ACTIVE, 2 rules')
        vms.migrate(self.lab, vm, 'hv1', lambda: self.cloud.bind(port, 'hv1'))
        self.addCleanup(vms.migrate, self.lab, vm, 'hv2',
                        lambda: self.cloud.bind(port, 'hv2'))
        # It may stay DOWN there: the OVN of the hypervisor that it has left
        # may say so after the other one has said that it is up.
        seen('on hv1, ')
        rule = self.cloud.allow(self.tenants['red'], 'tcp', vms.HTTP_PORT)
        self.addCleanup(self.cloud.network.delete_security_group_rule, rule)
        seen('3 rules')
        self.addCleanup(self.cloud.network.update_port, port.id,
                        is_port_security_enabled=True,
                        security_groups=port.security_group_ids)
        self.cloud.network.update_port(
            port.id, is_port_security_enabled=False, security_groups=[])
        seen('open')
        self.assertTrue(process.alive, process.log_tail())
