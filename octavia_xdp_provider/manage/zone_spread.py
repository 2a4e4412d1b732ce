# SPDX-License-Identifier: Apache-2.0
"""Load balancers whose nodes are in fewer zones than they want.

LB nodes and proxy nodes of a load balancer are looked at apart.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller.store import rows

IN_ONE_ZONE, TOO_FEW_ZONES = 'in one zone', 'too few zones'

# Nodes that a text names at most.
_NAMED_MAX = 5
_NODES: dict[rows.Role, str] = {rows.LB: 'nodes', rows.PROXY: 'proxy nodes'}


class Zones:
    """The zones of all nodes, by role.

    :param conf: ``[placement]``.
    """

    def __init__(self, conf: Any, nodes: Iterable[rows.Node]) -> None:
        self._conf = conf
        self._by_role: dict[rows.Role, dict[str, str]] = {
            role: {} for role in rows.ROLES}
        self._out: set[str] = set()
        for node in nodes:
            self._by_role[node.role][node.host] = node.zone or ''
            if node.condition in ('dead', 'disabled', 'draining'):
                self._out.add(node.host)

    def state(self, load_balancer: rows.LoadBalancer,
              placements: Sequence[rows.Placement]) -> str | None:
        """Return IN_ONE_ZONE, TOO_FEW_ZONES, or None if neither applies."""
        return next(filter(None, (
            self._state(role, load_balancer, placements)
            for role in rows.ROLES)), None)

    def _state(self, role: rows.Role, load_balancer: rows.LoadBalancer,
               placements: Sequence[rows.Placement]) -> str | None:
        document, zones = load_balancer.document, self._by_role[role]
        if role == rows.PROXY and not tiers.needs_proxies(document):
            return None
        spread = spec.spread(document) or self._conf.spread
        wanted = document['flavor'].get('replicas', self._conf.replicas)
        working = self._working(role, placements)
        if spread == 'off' or wanted < 2 or not working:
            return None
        if spread == 'require' and len(working) < wanted:
            return TOO_FEW_ZONES
        if (len(set(zones.values())) > 1
                and len({zones[host] for host in working}) == 1):
            return IN_ONE_ZONE
        return None

    def _working(self, role: rows.Role, placements: Sequence[rows.Placement]
                 ) -> list[str]:
        return [placement.host for placement in placements
                if placement.removed_generation is None
                and not placement.error
                and placement.host in self._by_role[role]
                and placement.host not in self._out]

    def describe(self, load_balancer: rows.LoadBalancer,
                 placements: Sequence[rows.Placement],
                 get_refusals: Callable[[rows.Role], Mapping[str, str]]
                 ) -> str:
        """Return the text for a load balancer with such a state.

        :param get_refusals: returns what Scheduler.refusals returns of a role.
        """
        role = next(role for role in rows.ROLES
                    if self._state(role, load_balancer, placements))
        by_host = self._by_role[role]
        zones = {by_host[host] for host in self._working(role, placements)}
        others = [host for host, zone in sorted(by_host.items())
                  if zone not in zones]
        refusals = get_refusals(role)
        text = (f'all its {_NODES[role]} are in zone '
                + ' and '.join(map(repr, sorted(zones))))
        if not others:
            return f'{text}; no node is registered in another zone'
        if any(host not in refusals for host in others):
            return (f'{text}; it is not placed yet on a node of another zone '
                    'that can take it')
        return f'{text}; no other zone can take it: ' + '; '.join(
            f'{host}: {refusals[host]}' for host in others[:_NAMED_MAX]) + (
                '; …' if len(others) > _NAMED_MAX else '')
