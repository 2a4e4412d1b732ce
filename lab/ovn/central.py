# SPDX-License-Identifier: Apache-2.0
"""OVN's databases and northd, on the control host."""

import dataclasses

from lab import paths
from lab.ovn import ovsdb
from lab.ovn import packages

NORTHD = 'ovn-northd'
# The name by which Neutron and hypervisors know the network of the operator.
PHYSICAL_NETWORK = 'provider'


@dataclasses.dataclass(frozen=True)
class Database:
    """One of OVN's two databases.

    `name` is also its process's.
    """

    name: str
    schema: str
    content: str
    table: str
    command: str
    port: int

    @property
    def url(self):
        """Where Neutron and hypervisors find it."""
        return f'tcp:{paths.CONTROL_ADDRESS}:{self.port}'


NORTHBOUND = Database('ovn-nb', 'ovn-nb.ovsschema', 'OVN_Northbound',
                      'NB_Global', 'ovn-nbctl', 6641)
SOUTHBOUND = Database('ovn-sb', 'ovn-sb.ovsschema', 'OVN_Southbound',
                      'SB_Global', 'ovn-sbctl', 6642)


def start(lab):
    """Start OVN, with nothing in it; its packages are fetched before."""
    packages.provide(lab)
    host = ovsdb.Host(lab, paths.CONTROL)
    host.make_directories()
    for one in NORTHBOUND, SOUTHBOUND:
        host.start_database(one.name, one.name, one.schema,
                            f'db:{one.content},{one.table},connections')
        _control(host, one, 'init')
        # Not as an option of the server, which has no interval for probes.
        _control(host, one, '--', 'set-connection',
                 f'ptcp:{one.port}:{paths.CONTROL_ADDRESS}', '--', 'set',
                 'connection', '.', f'inactivity_probe={ovsdb.PROBE_MS}')
    host.start(NORTHD, NORTHD,
               f'--ovnnb-db=unix:{host.socket(NORTHBOUND.name)}',
               f'--ovnsb-db=unix:{host.socket(SOUTHBOUND.name)}',
               f'--unixctl={host.control(NORTHD)}',
               ready=host.control(NORTHD).exists)


def show(lab, database):
    """What a database has, as ovn-nbctl or ovn-sbctl show it."""
    return _control(ovsdb.Host(lab, paths.CONTROL), database, 'show')


def _control(host, database, *arguments):
    return host.run(database.command,
                    f'--db=unix:{host.socket(database.name)}', *arguments)
