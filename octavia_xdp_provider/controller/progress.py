# SPDX-License-Identifier: Apache-2.0
"""The progress of the nodes with one load balancer."""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from octavia_xdp_provider.controller import status
from octavia_xdp_provider.controller.store import rows


class Progress:
    """Computed from a load balancer's placements.

    ``hosts``: live nodes that should have it. ``leaving``: live nodes that
    should not but still have it. ``failing``: live nodes that failed to apply
    it. ``any_done``: whether a live node has applied the generation.
    ``all_done``: whether one has, and all others have or failed to.
    ``removed``: whether no live node has the objects that the generation
    removed; failing nodes keep them. ``replacing``: whether a failover has yet
    to replace nodes. ``views``: status.views of all nodes that should have it.
    """

    def __init__(self, generation: int, placements: Sequence[rows.Placement],
                 live: Collection[str], states: Mapping[str, dict[str, Any]],
                 undecided: Collection[str] = frozenset()) -> None:
        """Compute the attributes.

        :param live: hosts.
        :param states: host → the node's latest report.
        :param undecided: members whose way is not decided yet, so that not all
            nodes are done.
        """
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
        self.failing = [row.host for row in reachable if row.error]
        done = {row.host for row in reachable if not row.error
                and row.synced_generation >= generation}
        # A node that drains has been replaced already.
        self.replacing = any(row.replace and row.draining_since is None
                             for row in wanted)
        self.any_done = bool(done)
        self.all_done = (bool(done) and not self.replacing
                         and not undecided and
                         set(self.hosts) == done | set(self.failing))
        self.removed = set(self.hosts) == done
