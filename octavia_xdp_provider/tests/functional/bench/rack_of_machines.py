# SPDX-License-Identifier: Apache-2.0
"""The bed of the documentation, of machines that are reached by ssh."""

from octavia_xdp_provider.tests.functional.bench import ssh_machines
from octavia_xdp_provider.tests.unit.bench import rack

ADDRESSES = {'generator': '192.0.2.11', 'lb': '192.0.2.12',
             'member': '192.0.2.13'}
LINKS = [(('generator', 'ens1'), ('lb', 'ens1')),
         (('lb', 'ens2'), ('member', 'ens1')),
         (('generator', 'ens2'), ('member', 'ens2'))]


def declaration(machines):
    """The documentation's, with the keys of these machines."""
    bed = rack.declaration()
    bed['ssh']['key'] = str(machines.lab.directory / ssh_machines.OPERATOR)
    for name, host in bed['hosts'].items():
        host['ssh']['host_key'] = machines.keys[name]
    return bed
