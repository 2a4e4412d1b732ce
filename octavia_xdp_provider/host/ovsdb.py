# SPDX-License-Identifier: Apache-2.0
"""Interfaces of the local Open vSwitch, from its database (OVSDB, RFC 7047).

The library of Open vSwitch keeps a copy of the few columns that are needed
and follows all changes. While the database does not answer, the copy stays as
it was, so that a restart of Open vSwitch removes no tap.
"""

import copy
import typing

from ovs.db import idl
from ovs.poller import Poller

DATABASE = 'Open_vSwitch'
# Milliseconds of silence after which the server is probed. The library's
# default of 5 s is too short for a busy hypervisor.
PROBE_MS = 30000

_TEXT = {'type': 'string'}
_MAP = {'type': {'key': 'string', 'value': 'string', 'min': 0,
                 'max': 'unlimited'}}


def _references(table: str) -> dict[str, typing.Any]:
    return {'type': {'key': {'type': 'uuid', 'refTable': table}, 'min': 0,
                     'max': 'unlimited'}}


# The needed part of the schema of ovs-vswitchd.conf.db(5), which has been
# there since Open vSwitch 1.10.
SCHEMA = {
    'name': DATABASE, 'version': '7.0.0', 'tables': {
        'Bridge': {'columns': {
            'name': _TEXT, 'datapath_type': _TEXT,
            'ports': _references('Port')}, 'isRoot': True},
        'Port': {'columns': {'interfaces': _references('Interface')},
                 'isRoot': True},
        'Interface': {'columns': {
            'name': _TEXT, 'type': _TEXT, 'external_ids': _MAP},
            'isRoot': True}}}


class Interface(typing.NamedTuple):
    """``type``: empty for a kernel device, see ovs-vswitchd.conf.db(5).
    ``datapath_type``: that of its bridge; empty or "system" for the kernel,
    "netdev" for user space."""

    name: str
    type: str
    port_id: str
    datapath_type: str = ''


class Database:
    """A replica of the database; not thread-safe.

    :param remote: for example "unix:/run/openvswitch/db.sock".
    """

    def __init__(self, remote: str) -> None:
        helper = idl.SchemaHelper(schema_json=copy.deepcopy(SCHEMA))
        helper.register_all()
        self._idl = idl.Idl(remote, helper, probe_interval=PROBE_MS)

    def close(self) -> None:
        self._idl.close()

    def run(self) -> bool:
        """Process received updates; return whether anything may differ."""
        return bool(self._idl.run())

    def wait(self, poller: Poller) -> None:
        """Make ``poller.block()`` return when there are updates."""
        self._idl.wait(poller)

    @property
    def is_known(self) -> bool:
        """Whether the database has ever answered."""
        return bool(self._idl.has_ever_connected())

    def interfaces(self) -> list[Interface]:
        """Return interfaces of Neutron ports (external_ids:iface-id)."""
        datapaths = {}
        for bridge in self._idl.tables['Bridge'].rows.values():
            for port in bridge.ports:
                for interface in port.interfaces:
                    datapaths[interface.uuid] = bridge.datapath_type
        return [Interface(row.name, row.type, row.external_ids['iface-id'],
                          datapaths.get(row.uuid, ''))
                for row in self._idl.tables['Interface'].rows.values()
                if 'iface-id' in row.external_ids]
