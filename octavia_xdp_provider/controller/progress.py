# SPDX-License-Identifier: Apache-2.0
"""How far the nodes are with one load balancer."""

from octavia_xdp_provider.controller import status


class Progress:
    """From a load balancer's placements.

    ``hosts``: live nodes that shall have it. ``leaving``: live nodes that
    shall not and still do. ``failing``: live nodes that cannot do it.
    ``any_done``, ``all_done``: whether one live node has made the generation
    true, and whether there is one and no other is waited for: one that cannot
    do its part is not. ``removed``: whether no live node has what the
    generation removed; a node that cannot do it keeps what it had.
    ``replacing``: whether nodes are still to be replaced by a failover.
    ``views``: all nodes that shall have it, as the fold of statuses takes
    them.
    """

    def __init__(self, generation, placements, live, states,
                 undecided=frozenset()):
        """:param live: hosts.

        :param undecided: members of which it is not known yet how they are
            reached: nobody is done before.

        :param states: host → what the node reports of itself.
        """
        self.leaving = sorted(
            row.host for row in placements
            if row.removed_generation is not None and row.host in live)
        wanted = [row for row in placements
                  if row.removed_generation is None]
        mine = [row for row in wanted if row.host in live]
        self.hosts = [row.host for row in mine]
        self.views = [
            status.view(row, states.get(row.host, {}), row.host in live,
                        generation) for row in wanted]
        self.failing = [row.host for row in mine if row.error]
        done = {row.host for row in mine if not row.error
                and row.synced_generation >= generation}
        # What a node announces as a last resort has been replaced already.
        self.replacing = any(row.replace and row.draining_since is None
                             for row in wanted)
        self.any_done = bool(done)
        self.all_done = (bool(done) and not self.replacing
                         and not undecided and
                         set(self.hosts) == done | set(self.failing))
        self.removed = set(self.hosts) == done
