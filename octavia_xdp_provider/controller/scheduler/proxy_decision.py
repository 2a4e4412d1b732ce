# SPDX-License-Identifier: Apache-2.0
"""Decides which proxy nodes serve one load balancer.

As decision.py, among nodes and placements of role proxy alone. Proxy nodes
announce nothing. A proxy node that leaves drains first: the controller gives
it weight 0 in the document, so that LB nodes send it no new connections
(controller/proxies.py). It leaves once all LB nodes have applied that and
``[placement] proxy_drain_time`` has passed. One that is dead leaves without,
as soon as enough others have the load balancer.

A drain is a change of the document, which proxy nodes have to apply as well.
So a drain goes on while they do.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import moves
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.process import ages


class ProxyDecider(decision.Decider):
    """A Decider about proxy nodes.

    ``drain_s`` is ``[placement] proxy_drain_time``.
    """

    role: rows.Role = rows.PROXY

    def wanted(self, balancer: rows.LoadBalancer) -> int:
        """Return the number of proxy nodes that a load balancer should have.
        """
        return (super().wanted(balancer)
                if tiers.needs_proxies(balancer.document) else 0)

    def _join_wait_s(self, balancer: rows.LoadBalancer,
                     placements: Sequence[rows.Placement],
                     working: Sequence[rows.Placement]) -> float:
        return 0.0

    def _without_sole_announcers(self, leaving: Mapping[str, moves.Reason],
                                 by_host: Mapping[str, rows.Placement]
                                 ) -> dict[str, moves.Reason]:
        return dict(leaving)

    def _may_leave(self, balancer: rows.LoadBalancer, row: rows.Placement,
                   reason: moves.Reason, traffic: decision.Traffic) -> bool:
        if reason is moves.Reason.DEAD or not row.synced_generation:
            return True
        return (row.host in traffic.unused
                and not self._drain_remaining_s(balancer, row))

    def _drain_remaining_s(self, balancer: rows.LoadBalancer,
                           row: rows.Placement) -> float:
        if row.draining_since is None:
            return self._drain_s
        return ages.left(row.draining_since, self._drain_s, self._now)

    def _keeping_flows(self, balancer: rows.LoadBalancer,
                       drained: Iterable[rows.Placement],
                       flows: Mapping[str, int]) -> dict[str, float]:
        return {}

    def _drains_anyway(self, balancer: rows.LoadBalancer, row: rows.Placement,
                       others: Iterable[rows.Placement]) -> bool:
        """Return whether a drain goes on, although other proxy nodes have yet
        to apply a change, which may be that of the drain itself.

        That of an operator begins without a replacement if no node can be
        one, and other proxy nodes serve.
        """
        others = list(others)
        staying = [other for other in others if self._reason(other) is None]
        if row.draining_since is None:
            return (super()._drains_anyway(balancer, row, others)
                    and bool(staying)
                    and all(self.is_fine(balancer, other) for other in staying)
                    and not self.candidates(
                        balancer, [other.host for other in others]))
        reason = self._reason(row)
        if reason in (moves.Reason.DEAD, moves.Reason.DRAINED):
            return reason is moves.Reason.DRAINED
        serving = [other for other in staying if other.draining_since is None]
        return len(serving) >= self.wanted(balancer)


def unused(balancer: rows.LoadBalancer, placements: Collection[rows.Placement],
           conditions: Mapping[str, clusters.Condition]) -> frozenset[str]:
    """Return the proxy nodes that no LB node sends new connections to.

    :param placements: of the load balancer on nodes of both roles, with those
        that are being removed.
    :param conditions: host → Condition; nodes without are dead.
    """
    for row in placements:
        if row.role != rows.LB or conditions.get(
                row.host, clusters.Condition.DEAD) is clusters.Condition.DEAD:
            continue
        if (row.removed_generation is not None or row.error
                or row.synced_generation < balancer.generation):
            return frozenset()
    proxies = balancer.document.get('proxies')
    weights = {} if proxies is None else {
        host: node['weight'] for host, node in proxies['nodes'].items()}
    return frozenset(row.host for row in placements
                     if row.role == rows.PROXY and not weights.get(row.host))
