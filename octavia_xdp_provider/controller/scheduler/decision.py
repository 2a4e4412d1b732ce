# SPDX-License-Identifier: Apache-2.0
"""What one load balancer needs: nodes to add, nodes to take it from.

Additions come first. A node loses a VIP only when enough others have made
the VIP's newest generation true, so that a VIP never has fewer nodes for
having been moved. Where the node could go on, the others must announce the
VIP as well if it does, and it first announces the VIP for a while as a last
resort (RFC 8326), so that routers have moved the flows when it withdraws.
With forwarding nat it withdraws the VIP then and keeps its flows, whose
packets other nodes hand on to it, until they have ended. Nodes seek flows of
UDP only once they know that one of them drains: it, and what takes its place,
waits for that.
"""

import dataclasses
import enum
import hashlib

from octavia_xdp_provider.common import ages
from octavia_xdp_provider.common import flavor
from octavia_xdp_provider.common import link
from octavia_xdp_provider.common import nat
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import filters

# Seconds between two looks whether flows of NAT have ended, and from the
# withdrawal to the first: nodes report them every link.FIGURES_S.
FLOWS_LOOK_S = 10.0
FLOWS_SETTLE_S = 2 * link.FIGURES_S


class Why(enum.Enum):
    """Why a load balancer leaves a node."""

    DEAD = 'the node is dead'
    FAILING = 'the node cannot do it'
    DISABLED = 'the node was taken out of service'
    DRAINED = 'the node is drained'
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
    ``remove``: host → Why. ``drain``: nodes that shall announce it as a last
    resort; ``withdraw``: nodes that shall not announce it, and keep their
    flows by NAT; ``restore``: nodes that shall announce it as ever again.
    ``again_in_s``: when more is to be decided, though nothing else happens;
    or None.
    """

    load_balancer_id: str
    decided_on: frozenset
    add: tuple = ()
    remove: dict = dataclasses.field(default_factory=dict)
    drain: tuple = ()
    restore: tuple = ()
    withdraw: tuple = ()
    again_in_s: float | None = None

    @property
    def changes_something(self):
        return bool(self.add or self.remove or self.drain or self.withdraw
                    or self.restore)


class Decider:
    """Filters, weighers and the cluster that they are asked about.

    :param drain_s: seconds for which a VIP that leaves a node is announced
        there as a last resort.
    :param now: seconds since the epoch, by the database's clock.
    :param nat_drain_s: seconds for which flows by NAT are kept at most after
        that.
    :param settle_s: seconds for which what is served waits for dead nodes, see
        Cluster.settled_in_s.
    """

    def __init__(self, cluster, filters, weighers, default_replicas,
                 drain_s=0, now=0.0, nat_drain_s=0, settle_s=0):
        self._settle_s = settle_s
        self._nat_drain_s = nat_drain_s
        self._drain_s = drain_s
        self._now = now
        self.cluster = cluster
        self._filters = filters
        self._weighers = weighers
        self._default_replicas = default_replicas

    def wanted(self, balancer):
        """How many nodes shall have a load balancer."""
        return balancer.document['flavor'].get('replicas',
                                               self._default_replicas)

    def decide(self, balancer, placements, flows=None):
        """The Move that a load balancer needs, or None.

        What the move adds and removes is accounted for in the cluster.

        :param placements: those of this load balancer, without those that
            are leaving.
        :param flows: host → flows by NAT that it has there.
        """
        wanted = self.wanted(balancer)
        rows = {row.host: row for row in placements}
        working = [row for row in placements if self._why(row) is None]
        join_s = (self._join_left_s(balancer, placements, working)
                  if len(working) < wanted else 0)
        missing = wanted - len(working)
        settle_s = self._settle_left_s(placements) if missing > 0 else 0
        if settle_s:
            # What nobody serves is served by one at once.
            missing = min(missing, 0 if any(
                self._is_live(row.host) for row in working) else 1)
        add = () if join_s else self._additions(
            balancer, rows, missing, wanted)
        synced = {row.host for row in working
                  if self._is_live(row.host)
                  and row.synced_generation >= balancer.generation}
        leaving = {}
        if len(synced) >= wanted:
            leaving = {row.host: self._why(row) for row in placements
                       if self._why(row) is not None}
            for host in self._surplus(balancer, working, wanted):
                leaving[host] = Why.SURPLUS
        leaving = self._replaced(leaving, rows)
        drained = {host: why for host, why in leaving.items()
                   if why.is_failure
                   or self._has_drained(balancer, rows[host])}
        keeps = self._keeping_flows(balancer, [
            rows[host] for host, why in drained.items()
            if not why.is_failure], flows or {})
        remove = {host: why for host, why in drained.items()
                  if host not in keeps}
        move = Move(balancer.id, frozenset(rows), add, remove,
                    **self._drains(balancer, {
                        host: row for host, row in rows.items()
                        if host not in remove},
                        leaving.keys() - drained.keys(), keeps,
                        max(join_s, settle_s)))
        if not move.changes_something and move.again_in_s is None:
            return None
        needed = filters.services(balancer.document)
        for host in add:
            self.cluster.add(host, needed)
        for host in remove:
            self.cluster.remove(host)
        return move

    def _join_left_s(self, balancer, placements, working):
        """Seconds until another node may take the place of one that drains,
        or 0.

        Where a node is added routers may move flows between those that were
        there. Of UDP by NAT these have to know first.
        """
        others = [row for row in placements if row not in working]
        if (not working or not nat.has_udp(balancer.document)
                or any(self._why(row).is_failure for row in others)):
            return 0
        return max([0, *(
            nat.OTHERS_S if row.draining_since is None
            else ages.left(row.draining_since, nat.OTHERS_S, self._now)
            for row in others
            if row.announced and self._why(row) is Why.DRAINED)])

    def _settle_left_s(self, placements):
        """Seconds until nodes that died are replaced by others, or 0."""
        if not any(self._why(row) is Why.DEAD for row in placements):
            return 0
        return self.cluster.settled_in_s(self._now, self._settle_s)

    @staticmethod
    def _replaced(leaving, rows):
        """Of what could leave, without what others do not announce yet."""
        others = all(row.announced is not False for host, row in rows.items()
                     if host not in leaving)
        return {host: why for host, why in leaving.items()
                if why.is_failure or others or not rows[host].announced}

    def _has_drained(self, balancer, row):
        """Whether routers have had the time to prefer others."""
        if not self._drain_s or not row.announced:
            return True
        return (self._drain_left_s(balancer, row) <= 0
                and row.synced_generation >= row.drain_generation)

    def _drain_left_s(self, balancer, row):
        drain_s = self._drain_s
        if nat.has_udp(balancer.document):
            drain_s += nat.OTHERS_S  # The node begins later by that.
        if row.draining_since is None:
            return drain_s
        return ages.left(row.draining_since, drain_s, self._now)

    def _keeping_flows(self, balancer, rows, flows):
        """Host → seconds until it is looked at again, of those that have
        flows by NAT, or may have, for which they are not left yet.

        :param rows: placements that have drained.
        """
        if not self._nat_drain_s or not flavor.is_nat(
                balancer.document['flavor']):
            return {}
        found = {}
        for row in rows:
            if row.withdrawn_since is None:
                if row.announced or flows.get(row.host):
                    found[row.host] = FLOWS_SETTLE_S
                continue
            left_s = ages.left(row.withdrawn_since, self._nat_drain_s,
                               self._now)
            if not left_s:
                continue
            age_s = ages.age(row.withdrawn_since, self._now)
            if (age_s < FLOWS_SETTLE_S or flows.get(row.host)
                    or row.synced_generation < row.drain_generation):
                found[row.host] = max(FLOWS_LOOK_S, FLOWS_SETTLE_S - age_s)
        return found

    def _drains(self, balancer, rows, waiting, keeps, join_s):
        """Who begins to drain, withdraws, and ends, and when to look again,
        as arguments of Move.

        :param rows: by host, of those that are not removed.
        :param waiting: hosts that only wait for that to leave.
        :param keeps: see _keeping_flows.
        :param join_s: until it may be given another node, see _join_left_s and
            _settle_left_s.
        """
        draining = {host for host in rows if host in waiting or host in keeps
                    or self.cluster.condition(host)
                    is clusters.Condition.DRAINING}
        left = [self._drain_left_s(balancer, rows[host])
                for host in waiting]
        left += [*keeps.values(), *([join_s] if join_s else ())]
        return {
            # One that was withdrawn and cannot leave any more is announced.
            'drain': tuple(sorted(
                host for host in draining - keeps.keys()
                if rows[host].draining_since is None
                or rows[host].withdrawn_since is not None)),
            'withdraw': tuple(sorted(
                host for host in keeps
                if rows[host].withdrawn_since is None)),
            'restore': tuple(sorted(
                host for host, row in rows.items()
                if row.draining_since is not None and host not in draining)),
            # What a node has not confirmed it reports by itself.
            'again_in_s': max(0.1, min(left))
            if any(one > 0 for one in left) else None}

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
        if condition is clusters.Condition.DRAINING:
            return Why.DRAINED
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
        draining = {row.host for row in working
                    if row.draining_since is not None}
        hosts = [self.cluster.hosts[row.host] for row in working]
        hosts.sort(key=lambda host: (
            # Flows by NAT take their time: what was chosen is.
            host.name not in draining,
            host.condition is clusters.Condition.LIVE,
            self._rank(host, balancer)))
        return [host.name for host in hosts[:max(0, len(hosts) - wanted)]]
