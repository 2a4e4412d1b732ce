# SPDX-License-Identifier: Apache-2.0
"""Drops that an LB node's datapath counts, and the node's VIPs."""

from octavia_xdp_provider.drops import rows

DROP = 'DROP_'


class DatapathDrops:
    """:param datapath: node.datapath.Datapath, or an object like it"""

    def __init__(self, datapath):
        self._datapath = datapath

    def read(self):
        """Return {row: packets} since the datapath was loaded."""
        return {rows.Row(rows.DATAPATH, outcome.name.removeprefix(DROP),
                         where='octavia-xdp'): counters.packets
                for outcome, counters in self._datapath.outcomes().items()
                if outcome.name.startswith(DROP)}

    def vips(self):
        """Return the addresses of all services."""
        return {service.key.address for service in self._datapath.services()}

    def close(self):
        self._datapath.close()
