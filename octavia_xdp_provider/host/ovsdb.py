# SPDX-License-Identifier: Apache-2.0
"""Interfaces of the local Open vSwitch, from its database (OVSDB, RFC 7047).

The library of Open vSwitch itself keeps a copy of the few columns that are
asked for and follows all changes. While the database does not answer, the
copy stays as it was: a restart of Open vSwitch takes no tap away.
"""

import copy
import typing

from ovs.db import idl
from ovs.poller import Poller

DATABASE = 'Open_vSwitch'
# Milliseconds without a word after which the server is asked whether it
# lives; the library's default, 5 s, is little for a busy hypervisor.
PROBE_MS = 30000

_TEXT = {'type': 'string'}
_MAP = {'type': {'key': 'string', 'value': 'string', 'min': 0,
                 'max': 'unlimited'}}


def _references(table: str) -> dict[str, typing.Any]:
    return {'type': {'key': {'type': 'uuid', 'refTable': table}, 'min': 0,
                     'max': 'unlimited'}}


# What is asked for, in the form of a schema: ovs-vswitchd.conf.db(5). All of
# it has been there since Open vSwitch 1.10.
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
    """``type``: empty for a device of the kernel's, see
    ovs-vswitchd.conf.db(5). ``datapath_type``: of the bridge that it is in:
    empty or "system" for the kernel's, "netdev" for user space."""

    name: str
    type: str
    port_id: str
    datapath_type: str = ''


class Database:
    """Belongs to one thread.

    :param remote: as "unix:/run/openvswitch/db.sock".
    """

    def __init__(self, remote: str) -> None:
        helper = idl.SchemaHelper(schema_json=copy.deepcopy(SCHEMA))
        helper.register_all()
        self._idl = idl.Idl(remote, helper, probe_interval=PROBE_MS)

    def close(self) -> None:
        self._idl.close()

    def run(self) -> bool:
        """Take what has come; whether something has changed, maybe."""
        return bool(self._idl.run())

    def wait(self, poller: Poller) -> None:
        """Let ``poller.block()`` end when there is something to take."""
        self._idl.wait(poller)

    @property
    def is_known(self) -> bool:
        """Whether it has answered, at any time."""
        return bool(self._idl.has_ever_connected())

    def interfaces(self) -> list[Interface]:
        """Those that have a port of Neutron's (external_ids:iface-id)."""
        datapaths = {}
        for bridge in self._idl.tables['Bridge'].rows.values():
            for port in bridge.ports:
                for interface in port.interfaces:
                    datapaths[interface.uuid] = bridge.datapath_type
        return [Interface(row.name, row.type, row.external_ids['iface-id'],
                          datapaths.get(row.uuid, ''))
                for row in self._idl.tables['Interface'].rows.values()
                if 'iface-id' in row.external_ids]
