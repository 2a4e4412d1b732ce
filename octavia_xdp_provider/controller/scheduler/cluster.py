# SPDX-License-Identifier: Apache-2.0
"""The nodes as input of one decision of the scheduler."""

from collections.abc import Iterable
from collections.abc import Mapping
import enum
from typing import Any

from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.process import ages


class Condition(enum.Enum):
    """Whether a node may get and keep load balancers."""

    LIVE = 'live'          # reports
    SILENT = 'silent'      # keeps its load balancers, as it may soon be back
    DEAD = 'dead'          # is replaced
    DISABLED = 'disabled'  # taken out of service by the operator
    DRAINING = 'draining'  # like DISABLED, with routes of last resort


class Host:
    """A node, with the load that this decision adds to it.

    ``died_or_back_at``: when it last died or came back, in seconds since the
    epoch by the database's clock, or 0. ``load_balancers`` counts placements.
    ``zone``: '' if none is registered: such nodes are in one common zone.
    ``services`` counts entries of the node's tables: reported ones and those
    of this decision.
    """

    def __init__(self, node: rows.Node, condition: Condition,
                 load_balancers: int) -> None:
        self.name = node.host
        self.role = node.role
        self.condition = condition
        self.died_or_back_at = node.died_or_back_at or 0.0
        self.report: dict[str, Any] = node.state or {}
        self.zone = node.zone or ''
        self.load_balancers = load_balancers
        self.services: int = self.report.get('services', 0)


class Cluster:
    """All nodes of a role by their names."""

    def __init__(self, nodes: Iterable[rows.Node], load: Mapping[str, int],
                 conditions: Mapping[str, Condition]) -> None:
        """Take over the nodes.

        :param load: host → number of its load balancers; 0 if left out.
        :param conditions: host → Condition.
        """
        self.hosts = {node.host: Host(node, conditions[node.host],
                                      load.get(node.host, 0))
                      for node in nodes}

    def condition(self, name: str) -> Condition:
        """Return a node's Condition, which is DEAD for an unknown node."""
        host = self.hosts.get(name)
        return host.condition if host else Condition.DEAD

    def settled_in_s(self, now: float, settle_s: float) -> float:
        """Return the seconds until further changes are unlikely, or 0.

        Several nodes that died have probably lost something that they share,
        and will come back one after the other.

        :param now: by the same clock as Host.died_or_back_at.
        :param settle_s: seconds for which further changes are likely after
            one.
        """
        died, back = ([host.died_or_back_at for host in self.hosts.values()
                       if (host.condition is Condition.DEAD) is dead]
                      for dead in (True, False))
        moments = (died if len(died) > 1 else []) + (back if died else [])
        return max([0, *(ages.left(moment, settle_s, now)
                         for moment in moments)])

    def add(self, name: str, services: int) -> None:
        """Account for a load balancer that is placed on a host."""
        self.hosts[name].load_balancers += 1
        self.hosts[name].services += services

    def remove(self, name: str) -> None:
        """Account for a load balancer that is removed from a host."""
        if name in self.hosts:
            self.hosts[name].load_balancers -= 1
            # Its table entries are in use until the node reports otherwise.


# Conditions of nodes that report and apply changes.
REACHABLE = frozenset(
    (Condition.LIVE, Condition.DISABLED, Condition.DRAINING))


def condition(silence_s: float, in_service: bool, live_s: float,
              dead_s: float, draining: bool = False) -> Condition:
    """Return the Condition of a node.

    :param silence_s: see Liveness.silence_s.
    :param in_service: whether the operator has the node in service.
    :param live_s: longest silence of a LIVE node, in seconds.
    :param dead_s: longest silence of a node that is not DEAD, in seconds.
    :param draining: whether the operator drains a node out of service.
    """
    if silence_s > dead_s:
        return Condition.DEAD
    if not in_service:
        return Condition.DRAINING if draining else Condition.DISABLED
    return Condition.LIVE if silence_s <= live_s else Condition.SILENT


def conditions(stored: Mapping[str, str | None]) -> dict[str, Condition]:
    """Return host → Condition from the stored values.

    A node that the leader has not judged yet is SILENT: it keeps its load
    balancers and is given no more.
    """
    return {host: Condition(value) if value else Condition.SILENT
            for host, value in stored.items()}
