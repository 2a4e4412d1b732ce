# SPDX-License-Identifier: Apache-2.0
"""The datapath's own drops and the node's VIPs, from its counters."""

from octavia_xdp_provider.drops import rows

DROP = 'DROP_'


class DatapathDrops:
    """:param datapath: node.datapath.Datapath, or one that looks like it"""

    def __init__(self, datapath):
        self._datapath = datapath

    def read(self):
        """{row: packets} since the datapath was loaded."""
        return {rows.Row(rows.DATAPATH, outcome.name.removeprefix(DROP),
                         where='octavia-xdp'): counters.packets
                for outcome, counters in self._datapath.outcomes().items()
                if outcome.name.startswith(DROP)}

    def vips(self):
        """Addresses of all services."""
        return {service.key.address for service in self._datapath.services()}

    def close(self):
        self._datapath.close()
