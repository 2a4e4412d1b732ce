# SPDX-License-Identifier: Apache-2.0
"""Live migration of a VM that is a member, step by step as Nova does it."""

from lab import processes
from lab.ovn import host_agents
from lab.ovn import vms

TIMEOUT_S = 120


def migrate(lab, tenants, vm, port, hypervisor, switched=lambda: None):
    """Move a VM; returns when its port is bound to the other hypervisor.

    :param tenants: tenants.Tenants, who may write bindings.
    :param port: the VM's, in Neutron.
    :param switched: called when the VM runs there, and Neutron does not know.
    """
    tap = vms.names(port.id)[0]

    def interface():
        """Of the port on the other hypervisor; None: it is not known there.
        """
        for row in host_agents.show(lab, hypervisor, 'ports'):
            if row['port'] == port.id:
                return row['interface'] or 'none'
        return None

    tenants.announce_migration(port, hypervisor)
    processes.wait_for(f'port of {vm} on {hypervisor}', interface, TIMEOUT_S)

    def move_binding():
        switched()
        tenants.bind(port, hypervisor)

    vms.migrate(
        lab, vm, hypervisor, move_binding,
        ready=lambda: processes.wait_for(
            f'programs at the tap of {vm} on {hypervisor}',
            lambda: interface() == tap, TIMEOUT_S))
