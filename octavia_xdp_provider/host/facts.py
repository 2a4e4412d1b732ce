# SPDX-License-Identifier: Apache-2.0
"""Counters of the datapath, read once for both reports and metrics."""

import dataclasses
import time

from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import types

# Prefix of outcomes that drop the packet.
DROP = 'DROP_'


@dataclasses.dataclass(frozen=True)
class Facts:
    """A snapshot; each reading creates a new object.

    ``outcomes``: packets by the outcome's name in lower case; ``drops``:
    dropped packets by port id and outcome; ``limits``: the same for packets
    of ports at a limit that are served nevertheless.
    """

    ports: tuple[types.PortState, ...] = ()
    entries: tuple[types.EntryState, ...] = ()
    outcomes: dict[str, int] = dataclasses.field(default_factory=dict)
    drops: dict[str, dict[str, int]] = dataclasses.field(
        default_factory=dict)
    limits: dict[str, dict[str, int]] = dataclasses.field(
        default_factory=dict)
    read_at: float = 0.0

    @property
    def flows(self) -> int:
        """Number of confirmed flows of all ports."""
        return sum(port.flows for port in self.ports)

    def counters(self) -> dict[str, host_messages.PortCounters]:
        """Return counters by port id."""
        counters: dict[str, host_messages.PortCounters] = {
            port.id: {'drops': self.drops.get(port.id, {}),
                      'active': port.flows, 'entries': []}
            for port in self.ports}
        for state in self.entries:
            if state.entry.port_id in counters:
                counters[state.entry.port_id]['entries'].append({
                    'key': state.entry.key, 'packets_in': state.packets_in,
                    'bytes_in': state.bytes_in,
                    'packets_out': state.packets_out,
                    'bytes_out': state.bytes_out, 'flows': state.flows,
                    'drops': state.drops})
        return counters

    def most_limited(self) -> dict[str, dict[str, int]]:
        """Return ``limits`` of the ports with the most such packets."""
        ids = sorted(self.limits, key=lambda port_id: (
            -sum(self.limits[port_id].values()), port_id))
        return {port_id: self.limits[port_id]
                for port_id in ids[:host_messages.LIMITED_PORTS_MAX]}

    def unclaimed(self) -> dict[str, int]:
        """Return dropped packets that belong to no port, by outcome."""
        rest = {name: packets for name, packets in self.outcomes.items()
                if name.startswith(DROP.lower())}
        for drops in self.drops.values():
            for name, packets in drops.items():
                rest[name] = max(0, rest.get(name, 0) - packets)
        return {name: packets for name, packets in rest.items() if packets}


def read(dataplane: datapath.Datapath) -> Facts:
    """:param dataplane: of the calling thread.

    :raises HostError: the datapath cannot be read.
    """
    drops: dict[str, dict[str, int]] = {}
    limits: dict[str, dict[str, int]] = {}
    for (port_id, outcome), packets in dataplane.drops().items():
        counted = drops if outcome.name.startswith(DROP) else limits
        counted.setdefault(port_id, {})[outcome.name.lower()] = packets
    return Facts(
        tuple(dataplane.ports()), tuple(dataplane.entries()),
        {outcome.name.lower(): packets
         for outcome, packets in dataplane.outcomes().items()},
        drops, limits, time.monotonic())
