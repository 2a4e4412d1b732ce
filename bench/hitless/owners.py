# SPDX-License-Identifier: Apache-2.0
"""Owners of the slots of connections, to tell what a second chance reaches.

A table knows two owners of each slot, the present and the previous one.
"""

import ipaddress
import struct

from octavia_xdp_provider.tests.models.packet_model import select

# The present and the previous one.
OWNERS_KNOWN = 2
TCP = 6


class Owners:
    """All tables in the order of their use.

    :param client: address of the client; ``vip``, ``port``: its destination.
    """

    def __init__(self, client, vip, port):
        self._client = ipaddress.ip_address(client).packed
        self._vip = ipaddress.ip_address(vip).packed
        self._port = port
        self._tables = []

    def add(self, table):
        """:param table: the member of each slot."""
        self._tables.append(table)

    @property
    def now(self):
        """The present time, as the index of the latest table."""
        return len(self._tables) - 1

    def since(self, client_port, begun):
        """Return the owners of a connection's slot since ``begun``."""
        value = select.flow_hash(
            self._client, self._vip,
            struct.pack('!HH', client_port, self._port), TCP)
        return {table[select.flow_slot(value, len(table))]
                for table in self._tables[begun:]}
