# SPDX-License-Identifier: Apache-2.0
"""What is shown of lost packets, the same for all sources."""

import typing

KERNEL, XDP, DATAPATH, HOST = 'kernel', 'xdp', 'datapath', 'host'


class Row(typing.NamedTuple):
    """Packets that were lost at one place for one reason.

    What a source cannot know is None: XDP's tracepoints have no packet and
    so no VIP, the datapath's outcomes are those of the whole node, and a
    hypervisor's those of a port.
    """

    source: str
    reason: str
    # Function of the kernel, or tracepoint.
    where: str | None = None
    vip: str | None = None
    direction: str | None = None  # 'to' or 'from' the VIP
    protocol: str | None = None
    # Protocol of the outer header that the packet was found in.
    encapsulation: str | None = None
    ifindex: int | None = None
    # Its name in this network namespace; None if it is none of it.
    interface: str | None = None
    # Inode of another network namespace; None if it is this one or unknown.
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
    """Differences of counters that only grow."""

    def __init__(self, first=None):
        """:param first: {row: packets} that count as known."""
        self._first = dict(first or {})
        self._last = dict(self._first)

    def update(self, counters):
        """Take {row: packets}; returns all rows that ever lost, the worst
        of now first.
        """
        rows = []
        for row, packets in counters.items():
            first = self._first.get(row, 0)
            if packets < self._last.get(row, 0):
                # They have begun anew, with a datapath that was made anew.
                self._first[row] = first = 0
                self._last[row] = 0
            delta = packets - self._last.get(row, 0)
            self._last[row] = packets
            if packets > first:
                rows.append(Lost(row, delta, packets - first))
        rows.sort(key=lambda lost: (
            -lost.packets, -lost.total, tuple(map(str, lost.row))))
        return rows
