# SPDX-License-Identifier: Apache-2.0
"""Who has had the slots of connections: what a second chance reaches.

A table knows two owners of each slot, the present one and one before.
"""

import ipaddress
import struct

from octavia_xdp_provider.packet_model import select

# The present one and the one before it.
OWNERS_KNOWN = 2
TCP = 6


class Owners:
    """Tables in the order in which they were in force.

    :param client: its address; ``vip``, ``port``: what it connects to.
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
        """When it is, as a number of tables."""
        return len(self._tables) - 1

    def since(self, client_port, begun):
        """All owners of a connection's slots since then."""
        value = select.flow_hash(
            self._client, self._vip,
            struct.pack('!HH', client_port, self._port), TCP)
        return {table[select.flow_slot(value, len(table))]
                for table in self._tables[begun:]}
