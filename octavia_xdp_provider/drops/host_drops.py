# SPDX-License-Identifier: Apache-2.0
"""Drops that a hypervisor's programs count."""

import collections

from octavia_xdp_provider.drops import rows

DROP = 'DROP_'


class HostDrops:
    """Counts drops by port and reason, and those without a port by reason.

    The datapath deletes a port's counters with the port. The sums here only
    grow, so that drops of deleted ports stay visible.

    :param datapath: host.datapath.Datapath, or an object like it
    """

    def __init__(self, datapath):
        self._datapath = datapath
        # Last reading and monotonic sum of each (port, reason).
        self._port_drops = {}
        self._port_sums = collections.Counter()
        # The same of each reason, drops of ports included.
        self._all_drops = {}
        self._all_sums = collections.Counter()
        # Monotonic difference of the two sums: drops without a port.
        self._portless = {}

    def read(self):
        """Return {row: packets}; values never decrease."""
        # Read ports last: a drop counted in between then belongs to its port
        # only, and the drops without a port lack it until the next reading.
        self._all_drops = _grow(self._all_sums, self._all_drops, {
            _reason(outcome): packets for outcome, packets
            in self._datapath.outcomes().items() if _is_drop(outcome)})
        self._port_drops = _grow(self._port_sums, self._port_drops, {
            (port, _reason(outcome)): packets for (port, outcome), packets
            in self._datapath.drops().items() if _is_drop(outcome)})
        of_ports = collections.Counter()
        for (_port, reason), packets in self._port_sums.items():
            of_ports[reason] += packets
        drops = {_row(reason, port): packets for (port, reason), packets
                 in self._port_sums.items()}
        for reason, packets in self._all_sums.items():
            self._portless[reason] = max(
                self._portless.get(reason, 0), packets - of_ports[reason])
            drops[_row(reason)] = self._portless[reason]
        return drops

    def vips(self):
        """Return the VIPs of the members on this hypervisor."""
        return {row.entry.vip for row in self._datapath.entries()}

    def close(self):
        self._datapath.close()


def _grow(sums, before, now):
    """Add the increments since `before` to the sums; return `now`."""
    for key, packets in now.items():
        known = before.get(key, 0)
        # A new port or a new datapath resets the counter.
        sums[key] += packets - known if packets >= known else packets
    return now


def _is_drop(outcome):
    return outcome.name.startswith(DROP)


def _reason(outcome):
    return outcome.name.removeprefix(DROP)


def _row(reason, port=None):
    return rows.Row(rows.HOST, reason, where='octavia-xdp-host', port=port)
