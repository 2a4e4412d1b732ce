# SPDX-License-Identifier: Apache-2.0
"""What the datapath counts, read once for reports and for metrics."""

import dataclasses
import time
import typing

from octavia_xdp_provider.common import host_messages
from octavia_xdp_provider.host import types

# Outcomes of packets that are lost.
DROP = 'DROP_'


@dataclasses.dataclass(frozen=True)
class Facts:
    """As of one moment. Another object with each reading.

    ``outcomes``: packets by the outcome's name in lower case; ``drops``:
    those that were dropped, by id of the port.
    """

    ports: tuple[types.PortState, ...] = ()
    entries: tuple[types.EntryState, ...] = ()
    outcomes: dict[str, int] = dataclasses.field(default_factory=dict)
    drops: dict[str, dict[str, int]] = dataclasses.field(
        default_factory=dict)
    read_at: float = 0.0

    @property
    def flows(self) -> int:
        """Confirmed ones, of all ports."""
        return sum(port.flows for port in self.ports)

    def counters(self) -> dict[str, host_messages.PortCounters]:
        """By id of the port."""
        found: dict[str, host_messages.PortCounters] = {
            port.id: {'drops': self.drops.get(port.id, {}),
                      'active': port.flows, 'entries': []}
            for port in self.ports}
        for one in self.entries:
            if one.entry.port_id in found:
                found[one.entry.port_id]['entries'].append({
                    'key': one.entry.key, 'packets_in': one.packets_in,
                    'bytes_in': one.bytes_in,
                    'packets_out': one.packets_out,
                    'bytes_out': one.bytes_out, 'flows': one.flows,
                    'drops': one.drops})
        return found

    def unclaimed(self) -> dict[str, int]:
        """Packets of no port that were dropped, by outcome."""
        found = {name: packets for name, packets in self.outcomes.items()
                 if name.startswith(DROP.lower())}
        for drops in self.drops.values():
            for name, packets in drops.items():
                found[name] = max(0, found.get(name, 0) - packets)
        return {name: packets for name, packets in found.items() if packets}


def read(dataplane: typing.Any) -> Facts:
    """:param dataplane: datapath.Datapath, of this thread.

    :raises HostError: it cannot be read.
    """
    drops: dict[str, dict[str, int]] = {}
    for (port_id, outcome), packets in dataplane.drops().items():
        if outcome.name.startswith(DROP):
            drops.setdefault(port_id, {})[outcome.name.lower()] = packets
    return Facts(
        tuple(dataplane.ports()), tuple(dataplane.entries()),
        {outcome.name.lower(): packets
         for outcome, packets in dataplane.outcomes().items()},
        drops, time.monotonic())
