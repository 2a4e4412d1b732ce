# SPDX-License-Identifier: Apache-2.0
"""What a hypervisor's programs dropped, from their counters."""

import collections

from octavia_xdp_provider.drops import rows

DROP = 'DROP_'


class HostDrops:
    """Counts by port and reason, and what belongs to no port by reason.

    The datapath's counters of a port go with the port; those here only grow,
    so that what it lost stays shown.

    :param datapath: host.datapath.Datapath, or one that looks like it
    """

    def __init__(self, datapath):
        self._datapath = datapath
        self._ports = {}  # (port, reason): as read last
        self._of_ports = collections.Counter()  # the same, never less
        self._outcomes = {}  # reason: as read last, ports' included
        self._of_all = collections.Counter()
        self._unclaimed = {}  # of no port, never less

    def read(self):
        """{row: packets}, of which none ever falls."""
        # In this order what is counted in between is a port's alone, and is
        # missing in the rest until the next reading.
        self._outcomes = _grow(self._of_all, self._outcomes, {
            _reason(outcome): packets for outcome, packets
            in self._datapath.outcomes().items() if _is_drop(outcome)})
        self._ports = _grow(self._of_ports, self._ports, {
            (port, _reason(outcome)): packets for (port, outcome), packets
            in self._datapath.drops().items() if _is_drop(outcome)})
        claimed = collections.Counter()
        for (_port, reason), packets in self._of_ports.items():
            claimed[reason] += packets
        found = {_row(reason, port): packets for (port, reason), packets
                 in self._of_ports.items()}
        for reason, packets in self._of_all.items():
            self._unclaimed[reason] = max(
                self._unclaimed.get(reason, 0), packets - claimed[reason])
            found[_row(reason)] = self._unclaimed[reason]
        return found

    def vips(self):
        """Of the members here."""
        return {one.entry.vip for one in self._datapath.entries()}

    def close(self):
        self._datapath.close()


def _grow(sums, before, now):
    """Add to the sums what came since `before`; returns `now`."""
    for key, packets in now.items():
        known = before.get(key, 0)
        # They begin anew with a port, and with a datapath.
        sums[key] += packets - known if packets >= known else packets
    return now


def _is_drop(outcome):
    return outcome.name.startswith(DROP)


def _reason(outcome):
    return outcome.name.removeprefix(DROP)


def _row(reason, port=None):
    return rows.Row(rows.HOST, reason, where='octavia-xdp-host', port=port)
