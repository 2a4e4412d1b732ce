# SPDX-License-Identifier: Apache-2.0
"""What one load balancer needs: nodes to add, nodes to take it from.

Additions come first. A node loses a VIP only when enough others have made
the VIP's newest generation true, so that a VIP never has fewer nodes for
having been moved.
"""

import dataclasses
import enum
import hashlib

from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import filters


class Why(enum.Enum):
    """Why a load balancer leaves a node."""

    DEAD = 'the node is dead'
    FAILING = 'the node cannot do it'
    DISABLED = 'the node was taken out of service'
    REPLACED = 'a failover was asked for'
    SURPLUS = 'enough other nodes have it'

    @property
    def is_failure(self):
        """Whether nobody asked for it: counted by the removal budget."""
        return self in (Why.DEAD, Why.FAILING)


@dataclasses.dataclass(frozen=True)
class Move:
    """Nodes that one load balancer is put on and taken from.

    ``decided_on``: the hosts that it was on when this was decided.
    ``remove``: host → Why.
    """

    load_balancer_id: str
    decided_on: frozenset
    add: tuple = ()
    remove: dict = dataclasses.field(default_factory=dict)


class Decider:
    """Filters, weighers and the cluster that they are asked about."""

    def __init__(self, cluster, filters, weighers, default_replicas):
        self.cluster = cluster
        self._filters = filters
        self._weighers = weighers
        self._default_replicas = default_replicas

    def wanted(self, balancer):
        """How many nodes shall have a load balancer."""
        return balancer.document['flavor'].get('replicas',
                                               self._default_replicas)

    def decide(self, balancer, placements):
        """The Move that a load balancer needs, or None.

        What the move adds and removes is accounted for in the cluster.

        :param placements: those of this load balancer, without those that
            are leaving.
        """
        wanted = self.wanted(balancer)
        rows = {row.host: row for row in placements}
        working = [row for row in placements if self._why(row) is None]
        add = self._additions(balancer, rows, wanted - len(working), wanted)
        synced = {row.host for row in working
                  if self._is_live(row.host)
                  and row.synced_generation >= balancer.generation}
        remove = {}
        if len(synced) >= wanted:
            remove = {row.host: self._why(row) for row in placements
                      if self._why(row) is not None}
            for host in self._surplus(balancer, working, wanted):
                remove[host] = Why.SURPLUS
        if not add and not remove:
            return None
        needed = filters.services(balancer.document)
        for host in add:
            self.cluster.add(host, needed)
        for host in remove:
            self.cluster.remove(host)
        return Move(balancer.id, frozenset(rows), add, remove)

    def candidates(self, balancer, without):
        """Hosts that may take a load balancer, the best first."""
        document = balancer.document
        return sorted(
            (host for name, host in self.cluster.hosts.items()
             if name not in without and self.refusal(host, document) is None),
            key=lambda host: self._rank(host, balancer), reverse=True)

    def refusal(self, host, document):
        """Why a host may not take it, by the first filter that says so."""
        for one in self._filters:
            reason = one(host, document)
            if reason is not None:
                return reason
        return None

    def _rank(self, host, balancer):
        # Of equal hosts each load balancer has an order of its own:
        # otherwise all neighbours would share the same nodes.
        digest = hashlib.blake2b(f'{balancer.id} {host.name}'.encode(),
                                 digest_size=8).digest()
        return (*(weigh(host, balancer.document)
                  for weigh in self._weighers), digest)

    def _is_live(self, name):
        return self.cluster.condition(name) is clusters.Condition.LIVE

    def _why(self, row):
        """Why a placement does not count, or None."""
        condition = self.cluster.condition(row.host)
        if condition is clusters.Condition.DEAD:
            return Why.DEAD
        if condition is clusters.Condition.DISABLED:
            return Why.DISABLED
        if row.error:
            return Why.FAILING
        return Why.REPLACED if row.replace else None

    def _additions(self, balancer, rows, missing, wanted):
        """The best hosts in place of those that are missing."""
        # What every node refuses is not tried on all of them: one failing
        # node is replaced by one other, unless some node could do it.
        failing = sum(self._why(row) is Why.FAILING for row in rows.values())
        possible = any(self._why(row) is None
                       and row.synced_generation >= balancer.generation
                       for row in rows.values())
        if not possible and failing > wanted:
            return ()
        best = self.candidates(balancer, rows) if missing > 0 else ()
        return tuple(host.name for host in best[:missing])

    def _surplus(self, balancer, working, wanted):
        """Hosts beyond those wanted, once all have done what they shall.

        Not before: one that was just added may be the better one.
        """
        if any(row.synced_generation < balancer.generation
               for row in working):
            return []
        hosts = [self.cluster.hosts[row.host] for row in working]
        hosts.sort(key=lambda host: (
            host.condition is clusters.Condition.LIVE,
            self._rank(host, balancer)))
        return [host.name for host in hosts[:max(0, len(hosts) - wanted)]]
