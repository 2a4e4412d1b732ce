# SPDX-License-Identifier: Apache-2.0
"""The datapath's own drops and the node's VIPs, from its counters."""

from octavia_xdp_provider.drops import rows

DROP = 'DROP_'


class Own:
    """:param dataplane: agent.datapath.Datapath, or what looks like it."""

    def __init__(self, dataplane):
        self._datapath = dataplane

    def read(self):
        """{row: packets} since the datapath was loaded."""
        return {rows.Row(rows.OWN, outcome.name.removeprefix(DROP),
                         where='octavia-xdp'): counters.packets
                for outcome, counters in self._datapath.outcomes().items()
                if outcome.name.startswith(DROP)}

    def vips(self):
        """Addresses of all services."""
        return {service.key.address for service in self._datapath.services()}

    def close(self):
        self._datapath.close()
