# SPDX-License-Identifier: Apache-2.0
"""OVN's databases and northd, on the control host."""

import dataclasses

from lab import paths
from lab.ovn import ovsdb
from lab.ovn import packages

NORTHD = 'ovn-northd'
# The operator's network, as Neutron and hypervisors name it.
PHYSICAL_NETWORK = 'provider'


@dataclasses.dataclass(frozen=True)
class Database:
    """One of OVN's two databases; `name` is also its process's name."""

    name: str
    schema: str
    content: str
    table: str
    command: str
    port: int

    @property
    def url(self):
        """The URL for Neutron and hypervisors."""
        return f'tcp:{paths.CONTROL_ADDRESS}:{self.port}'


NORTHBOUND = Database('ovn-nb', 'ovn-nb.ovsschema', 'OVN_Northbound',
                      'NB_Global', 'ovn-nbctl', 6641)
SOUTHBOUND = Database('ovn-sb', 'ovn-sb.ovsschema', 'OVN_Southbound',
                      'SB_Global', 'ovn-sbctl', 6642)


def start(lab):
    """Fetch OVN's packages, and start OVN with empty databases."""
    packages.provide(lab)
    host = ovsdb.Host(lab, paths.CONTROL)
    host.make_directories()
    for database in NORTHBOUND, SOUTHBOUND:
        host.start_database(
            database.name, database.name, database.schema,
            f'db:{database.content},{database.table},connections')
        _control(host, database, 'init')
        # The server's own option cannot set the interval of probes.
        _control(host, database, '--', 'set-connection',
                 f'ptcp:{database.port}:{paths.CONTROL_ADDRESS}', '--', 'set',
                 'connection', '.', f'inactivity_probe={ovsdb.PROBE_MS}')
    host.start(NORTHD, NORTHD,
               f'--ovnnb-db=unix:{host.socket(NORTHBOUND.name)}',
               f'--ovnsb-db=unix:{host.socket(SOUTHBOUND.name)}',
               f'--unixctl={host.control(NORTHD)}',
               ready=host.control(NORTHD).exists)


def show(lab, database):
    """Return a database's content, by "show" of ovn-nbctl or ovn-sbctl."""
    return _control(ovsdb.Host(lab, paths.CONTROL), database, 'show')


def _control(host, database, *arguments):
    return host.run(database.command,
                    f'--db=unix:{host.socket(database.name)}', *arguments)
