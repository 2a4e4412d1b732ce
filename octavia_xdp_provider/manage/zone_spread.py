# SPDX-License-Identifier: Apache-2.0
"""Load balancers whose nodes are in fewer zones than they want."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import rows

IN_ONE_ZONE, TOO_FEW_ZONES = 'in one zone', 'too few zones'

# Nodes that a text names at most.
_NAMED_MAX = 5


class Zones:
    """The zones of all LB nodes.

    :param conf: ``[placement]``.
    """

    def __init__(self, conf: Any, nodes: Iterable[rows.Node]) -> None:
        self._conf = conf
        self._zones: dict[str, str] = {}
        self._out: set[str] = set()
        for node in nodes:
            if node.role != rows.LB:
                continue
            self._zones[node.host] = node.zone or ''
            if node.condition in ('dead', 'disabled', 'draining'):
                self._out.add(node.host)

    def state(self, load_balancer: rows.LoadBalancer,
              placements: Sequence[rows.Placement]) -> str | None:
        """Return IN_ONE_ZONE, TOO_FEW_ZONES, or None if neither applies."""
        document = load_balancer.document
        spread = spec.spread(document) or self._conf.spread
        wanted = document['flavor'].get('replicas', self._conf.replicas)
        working = self._working(placements)
        if spread == 'off' or wanted < 2 or not working:
            return None
        if spread == 'require' and len(working) < wanted:
            return TOO_FEW_ZONES
        if (len(set(self._zones.values())) > 1
                and len({self._zones[host] for host in working}) == 1):
            return IN_ONE_ZONE
        return None

    def _working(self, placements: Sequence[rows.Placement]) -> list[str]:
        return [placement.host for placement in placements
                if placement.removed_generation is None
                and not placement.error and placement.host in self._zones
                and placement.host not in self._out]

    def describe(self, placements: Sequence[rows.Placement],
                 refusals: Mapping[str, str]) -> str:
        """Return the text for a load balancer with such a state.

        :param refusals: see Scheduler.refusals.
        """
        zones = {self._zones[host] for host in self._working(placements)}
        others = [host for host, zone in sorted(self._zones.items())
                  if zone not in zones]
        text = ('all its nodes are in zone '
                + ' and '.join(map(repr, sorted(zones))))
        if not others:
            return f'{text}; no node is registered in another zone'
        if any(host not in refusals for host in others):
            return (f'{text}; it is not placed yet on a node of another zone '
                    'that can take it')
        return f'{text}; no other zone can take it: ' + '; '.join(
            f'{host}: {refusals[host]}' for host in others[:_NAMED_MAX]) + (
                '; …' if len(others) > _NAMED_MAX else '')
