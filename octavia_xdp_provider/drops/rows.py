# SPDX-License-Identifier: Apache-2.0
"""Rows of lost packets, in the same form from all sources."""

import typing

KERNEL, XDP, DATAPATH, HOST = 'kernel', 'xdp', 'datapath', 'host'


class Row(typing.NamedTuple):
    """Packets that were lost at one place for one reason.

    Fields that a source cannot fill are None: XDP's tracepoints have no
    packet and so no VIP, the datapath's outcomes are those of the whole node,
    and a hypervisor's those of a port.
    """

    source: str
    reason: str
    # Kernel function or tracepoint.
    where: str | None = None
    vip: str | None = None
    direction: str | None = None  # 'to' or 'from' the VIP
    protocol: str | None = None
    # Protocol of the outer header around the packet.
    encapsulation: str | None = None
    ifindex: int | None = None
    # Its name, if it is in this network namespace.
    interface: str | None = None
    # Inode of its network namespace, if that is another one.
    namespace: int | None = None
    to_ifindex: int | None = None
    action: str | None = None
    program: str | None = None
    program_id: int | None = None
    # Neutron's id, on a hypervisor.
    port: str | None = None


class Lost(typing.NamedTuple):
    """A row's packets since the last reading and since the first."""

    row: Row
    packets: int
    total: int


class Ledger:
    """Computes differences of counters that only grow."""

    def __init__(self, first=None):
        """:param first: {row: packets} lost before, which are not shown."""
        self._first = dict(first or {})
        self._last = dict(self._first)

    def update(self, counters):
        """Take {row: packets}; return Lost of all rows with losses.

        The rows with most packets since the last call come first.
        """
        rows = []
        for row, packets in counters.items():
            first = self._first.get(row, 0)
            if packets < self._last.get(row, 0):
                # The datapath was recreated, and so were its counters.
                self._first[row] = first = 0
                self._last[row] = 0
            delta = packets - self._last.get(row, 0)
            self._last[row] = packets
            if packets > first:
                rows.append(Lost(row, delta, packets - first))
        rows.sort(key=lambda lost: (
            -lost.packets, -lost.total, tuple(map(str, lost.row))))
        return rows
