# SPDX-License-Identifier: Apache-2.0
"""The progress of the nodes with one load balancer."""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller import proxies
from octavia_xdp_provider.controller import status
from octavia_xdp_provider.controller.store import rows


class Progress:
    """Computed from a load balancer's placements, each tier by itself.

    ``hosts``: live nodes that should have it. ``leaving``: live nodes that
    should not but still have it. ``idle``: roles of which no live node has
    applied the generation, but should. ``all_done``: whether one of each tier
    has, all others have or failed to, and LB nodes are sent all listeners that
    proxy nodes serve; it waits for no proxy node that gets no new connections.
    ``removed``: whether no live node has the objects that the generation
    removed; failing nodes keep them. ``replacing``: whether a failover has yet
    to replace nodes. ``views``: status.views of all nodes that should have it.
    """

    def __init__(self, balancer: rows.LoadBalancer,
                 placements: Sequence[rows.Placement],
                 live: Collection[str], states: Mapping[str, dict[str, Any]]
                 ) -> None:
        """Compute the attributes.

        :param live: hosts.
        :param states: host → the node's latest report.
        """
        document, generation = balancer.document, balancer.generation
        self.leaving = sorted(
            row.host for row in placements
            if row.removed_generation is not None and row.host in live)
        wanted = [row for row in placements
                  if row.removed_generation is None]
        reachable = [row for row in wanted if row.host in live]
        self.hosts = [row.host for row in reachable]
        self.views = [
            status.view(row, states.get(row.host, {}), row.host in live,
                        generation) for row in wanted]
        done = [row for row in reachable if not row.error
                and row.synced_generation >= generation]
        awaited = {row.host for row in reachable if not row.error}
        roles = {rows.LB}
        if tiers.needs_proxies(document):
            roles.add(rows.PROXY)
            awaited -= proxies.excluded(document)
        self.idle = sorted(roles - {row.role for row in done})
        # A node that drains has been replaced already.
        self.replacing = any(row.replace and row.draining_since is None
                             for row in wanted)
        applied = {row.host for row in done}
        self.all_done = (not self.idle and not self.replacing
                         and awaited <= applied
                         and not spec.undecided(document)
                         and proxies.is_settled(document))
        self.removed = set(self.hosts) == applied
