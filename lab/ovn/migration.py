# SPDX-License-Identifier: Apache-2.0
"""Live migration of a VM that is a member, in the same steps as Nova's."""

from lab import processes
from lab.ovn import host_agents
from lab.ovn import vms

TIMEOUT_S = 120


def migrate(lab, tenants, vm, port, hypervisor, switched=lambda: None):
    """Move a VM, until its port is bound to the other hypervisor.

    :param tenants: tenants.Tenants, with permission to write bindings.
    :param port: the VM's port in Neutron.
    :param switched: called when the VM runs there, before its port is bound.
    """
    tap = vms.names(port.id)[0]

    def interface():
        """Return the port's interface there; None if the port is unknown."""
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
