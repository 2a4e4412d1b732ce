# SPDX-License-Identifier: Apache-2.0
"""Decides on which nodes to add one load balancer, and from which to take it.

Additions come first. A node loses a VIP only when enough other nodes have
applied the VIP's newest generation, so that a move never reduces a VIP's
nodes. If the node still works and announces the VIP, the others must announce
it too, and the node first announces it for a while as a route of last resort
(RFC 8326), so that routers have moved the flows when it withdraws.

With forwarding nat the node then withdraws the VIP but keeping its flows until
they have ended; other nodes hand their packets on to it. For UDP, nodes look
for the node of a flow only once they know that one of them drains, so
draining and adding a replacement wait for that.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import hashlib
from typing import Any

from octavia_xdp_provider.api import nat
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.scheduler import moves
from octavia_xdp_provider.controller.scheduler import spread as spreads
from octavia_xdp_provider.controller.scheduler import weighers
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.process import ages
from octavia_xdp_provider.process.agents import reporting

# Seconds between two checks of whether NAT flows have ended, and from the
# withdrawal to the first check: nodes report flows every reporting.FIGURES_S.
FLOWS_CHECK_S = 10.0
FLOWS_SETTLE_S = 2 * reporting.FIGURES_S


@dataclasses.dataclass(frozen=True)
class Traffic:
    """What still uses the nodes of a load balancer.

    ``flows``: host → number of its NAT flows there. ``unused``: proxy nodes
    that no LB node sends new connections to.
    """

    flows: Mapping[str, int] = dataclasses.field(default_factory=dict)
    unused: Collection[str] = ()


class Decider:
    """Filters and weighers, and the cluster that they are applied to.

    :param drain_s: seconds for which a VIP that leaves a node is announced
        there as a route of last resort.
    :param now: seconds since the epoch, by the database's clock.
    :param nat_drain_s: seconds for which NAT flows are kept at most after
        the VIP's withdrawal.
    :param settle_s: seconds for which load balancers that are still served
        wait for dead nodes to come back, see Cluster.settled_in_s.
    :param default_spread: of load balancers that set no spread.
    :cvar role: of the nodes that it decides about.
    """

    role: rows.Role = rows.LB

    def __init__(self, cluster: clusters.Cluster,
                 host_filters: Sequence[filters.Filter],
                 host_weighers: Sequence[weighers.Weigher],
                 default_replicas: int, drain_s: float = 0, now: float = 0.0,
                 nat_drain_s: float = 0, settle_s: float = 0,
                 default_spread: str = spreads.PREFER) -> None:
        self._default_spread = default_spread
        self._settle_s = settle_s
        self._nat_drain_s = nat_drain_s
        self._drain_s = drain_s
        self._now = now
        self.cluster = cluster
        self._filters = host_filters
        self._weighers = host_weighers
        self._default_replicas = default_replicas

    def wanted(self, balancer: rows.LoadBalancer) -> int:
        """Return the number of nodes that a load balancer should have."""
        return balancer.document['flavor'].get('replicas',
                                               self._default_replicas)

    def spread(self, balancer: rows.LoadBalancer) -> str:
        """Return how the nodes of a load balancer are spread over zones."""
        return spec.spread(balancer.document) or self._default_spread

    def decide(self, balancer: rows.LoadBalancer,
               placements: Sequence[rows.Placement],
               traffic: Traffic = Traffic()) -> moves.Move | None:
        """Return the Move that a load balancer needs, or None.

        The cluster then accounts for the move's additions and removals.

        :param placements: those of this load balancer, without those that
            are being removed, and on nodes of this role.
        """
        wanted = self.wanted(balancer)
        by_host = {row.host: row for row in placements}
        working = [row for row in placements if self._reason(row) is None]
        join_s = (self._join_wait_s(balancer, placements, working)
                  if len(working) < wanted else 0)
        missing = wanted - len(working)
        settle_s = self._settle_wait_s(placements) if missing > 0 else 0.0
        if settle_s:
            # A load balancer without a live node gets one at once.
            missing = min(missing, 0 if any(
                self._is_live(row.host) for row in working) else 1)
        add = () if join_s else self._additions(
            balancer, by_host, working, missing, wanted)
        leaving = self._without_sole_announcers(self._leaving(
            balancer, placements, working, bool(add or join_s or settle_s)),
            by_host)
        drained = {host: reason for host, reason in leaving.items()
                   if self._may_leave(balancer, by_host[host], reason,
                                      traffic)}
        keeping = self._keeping_flows(balancer, [
            by_host[host] for host, reason in drained.items()
            if not reason.is_failure], traffic.flows)
        remove = {host: reason for host, reason in drained.items()
                  if host not in keeping}
        move = moves.Move(
            balancer.id, frozenset(by_host), add, remove,
            **self._drain_changes(
                balancer, {host: row for host, row in by_host.items()
                           if host not in remove},
                leaving.keys() - drained.keys(), keeping,
                max(join_s, settle_s)))
        if not move.changes_something and move.again_in_s is None:
            return None
        needed = filters.services(balancer.document, self.role)
        for host in add:
            self.cluster.add(host, needed)
        for host in remove:
            self.cluster.remove(host)
        return move

    def _leaving(self, balancer: rows.LoadBalancer,
                 placements: Sequence[rows.Placement],
                 working: Sequence[rows.Placement], is_blocked: bool
                 ) -> dict[str, moves.Reason]:
        """Return host → Reason of nodes that may leave once they have drained.

        :param working: the placements that may stay.
        :param is_blocked: whether other nodes are added, or will be.
        """
        wanted = self.wanted(balancer)
        synced = {row.host for row in working
                  if self._is_live(row.host)
                  and row.synced_generation >= balancer.generation}
        if len(synced) >= wanted:
            return {**self._reasons(placements), **dict.fromkeys(
                self._surplus(balancer, working, wanted),
                moves.Reason.SURPLUS)}
        if synced and len(synced) == len(working) and not is_blocked:
            return self._leaving_zone(balancer, placements)
        return {}

    def _join_wait_s(self, balancer: rows.LoadBalancer,
                     placements: Sequence[rows.Placement],
                     working: Sequence[rows.Placement]) -> float:
        """Return the seconds until a draining node may be replaced, or 0.

        When a node is added, routers may move flows between the other nodes.
        For UDP by NAT, these must first know that a node drains.
        """
        others = [row for row in placements if row not in working]
        if (not working or not nat.has_udp(balancer.document)
                or any(reason.is_failure
                       for reason in self._reasons(others).values())):
            return 0
        return max([0, *(
            nat.OTHERS_S if row.draining_since is None
            else ages.left(row.draining_since, nat.OTHERS_S, self._now)
            for row in others
            if row.announced and self._reason(row) is moves.Reason.DRAINED)])

    def _settle_wait_s(self, placements: Iterable[rows.Placement]) -> float:
        """Return the seconds until dead nodes may be replaced, or 0."""
        if not any(self._reason(row) is moves.Reason.DEAD
                   for row in placements):
            return 0
        return self.settle_s

    @property
    def settle_s(self) -> float:
        """Seconds until further nodes are unlikely to die or come back."""
        return self.cluster.settled_in_s(self._now, self._settle_s)

    def is_fine(self, balancer: rows.LoadBalancer, row: rows.Placement
                ) -> bool:
        """Return whether a node may keep a load balancer, and has applied it.
        """
        return (self._reason(row) is None
                and row.synced_generation >= balancer.generation)

    def _leaving_zone(self, balancer: rows.LoadBalancer,
                      placements: Iterable[rows.Placement]
                      ) -> dict[str, moves.Reason]:
        """Return host → Reason of nodes whose zone is out of service, if no
        other zone may take their place."""
        if self.spread(balancer) != spreads.REQUIRE:
            return {}
        in_service = {host.zone for host in self.cluster.hosts.values()
                      if host.condition in (clusters.Condition.LIVE,
                                            clusters.Condition.SILENT)}
        return {host: reason for host, reason
                in self._reasons(placements).items()
                if reason.is_out_of_service
                and self.cluster.hosts[host].zone not in in_service}

    def _without_sole_announcers(self, leaving: Mapping[str, moves.Reason],
                                 by_host: Mapping[str, rows.Placement]
                                 ) -> dict[str, moves.Reason]:
        """Return ``leaving`` without nodes that must announce the VIP until
        all of the remaining nodes do."""
        announced = all(row.announced is not False
                        for host, row in by_host.items()
                        if host not in leaving)
        return {host: reason for host, reason in leaving.items()
                if reason.is_failure or announced
                or not by_host[host].announced}

    def _may_leave(self, balancer: rows.LoadBalancer, row: rows.Placement,
                   reason: moves.Reason, traffic: Traffic) -> bool:
        """Return whether the node has failed, or routers had the time to
        prefer other nodes."""
        if reason.is_failure or not self._drain_s or not row.announced:
            return True
        return (self._drain_remaining_s(balancer, row) <= 0
                and row.synced_generation >= row.drain_generation)

    def _drain_remaining_s(self, balancer: rows.LoadBalancer,
                           row: rows.Placement) -> float:
        drain_s = self._drain_s
        if nat.has_udp(balancer.document):
            drain_s += nat.OTHERS_S  # The node begins that much later.
        if row.draining_since is None:
            return drain_s
        return ages.left(row.draining_since, drain_s, self._now)

    def _keeping_flows(self, balancer: rows.LoadBalancer,
                       drained: Iterable[rows.Placement],
                       flows: Mapping[str, int]) -> dict[str, float]:
        """Return host → seconds until the next check, for the nodes that
        have, or may have, NAT flows and must therefore keep the load balancer.

        :param drained: placements that have drained.
        """
        if not self._nat_drain_s or not flavor.is_nat(
                balancer.document['flavor']):
            return {}
        check_in_s = {}
        for row in drained:
            if row.withdrawn_since is None:
                if row.announced or flows.get(row.host):
                    check_in_s[row.host] = FLOWS_SETTLE_S
                continue
            remaining_s = ages.left(row.withdrawn_since, self._nat_drain_s,
                               self._now)
            if not remaining_s:
                continue
            age_s = ages.age(row.withdrawn_since, self._now)
            if (age_s < FLOWS_SETTLE_S or flows.get(row.host)
                    or row.synced_generation < row.drain_generation):
                check_in_s[row.host] = max(FLOWS_CHECK_S,
                                           FLOWS_SETTLE_S - age_s)
        return check_in_s

    def _drain_changes(self, balancer: rows.LoadBalancer,
                       by_host: Mapping[str, rows.Placement],
                       waiting: Iterable[str], keeping: Mapping[str, float],
                       join_s: float) -> dict[str, Any]:
        """Return the Move's arguments for draining nodes, and for the time of
        the next decision.

        :param by_host: host → placement of those that are not removed.
        :param waiting: hosts that are to leave once they have drained.
        :param keeping: see _keeping_flows.
        :param join_s: seconds until another node may be added, see
            _join_wait_s and _settle_wait_s.
        """
        waiting = set(waiting)
        draining = {host for host in by_host
                    if host in waiting or host in keeping
                    or self._drains_anyway(balancer, by_host[host],
                                           by_host.values())}
        waits = [self._drain_remaining_s(balancer, by_host[host])
                 for host in waiting]
        waits += [*keeping.values(), *([join_s] if join_s else ())]
        return {
            # A withdrawn node that cannot leave after all announces again.
            'drain': tuple(sorted(
                host for host in draining - keeping.keys()
                if by_host[host].draining_since is None
                or by_host[host].withdrawn_since is not None)),
            'withdraw': tuple(sorted(
                host for host in keeping
                if by_host[host].withdrawn_since is None)),
            'restore': tuple(sorted(
                host for host, row in by_host.items()
                if row.draining_since is not None and host not in draining)),
            # Nodes report confirmations by themselves, which is an event.
            'again_in_s': max(0.1, min(waits))
            if any(wait > 0 for wait in waits) else None}

    def _drains_anyway(self, balancer: rows.LoadBalancer, row: rows.Placement,
                       others: Iterable[rows.Placement]) -> bool:
        """Return whether a node drains although it may not leave yet.

        :param others: all placements that are not removed.
        """
        return (self.cluster.condition(row.host)
                is clusters.Condition.DRAINING)

    def candidates(self, balancer: rows.LoadBalancer,
                   without: Collection[str]) -> list[clusters.Host]:
        """Return the hosts that may take a load balancer, best first."""
        document = balancer.document
        return sorted(
            (host for name, host in self.cluster.hosts.items()
             if name not in without and self.refusal(host, document) is None),
            key=lambda host: self._rank(host, balancer), reverse=True)

    def refusal(self, host: clusters.Host, document: spec.Document
                ) -> str | None:
        """Return the first filter's reason to refuse a host, or None."""
        for host_filter in self._filters:
            reason = host_filter(host, document)
            if reason is not None:
                return reason
        return None

    def _rank(self, host: clusters.Host, balancer: rows.LoadBalancer
              ) -> tuple[Any, ...]:
        # Each load balancer orders equal hosts differently: otherwise many
        # load balancers would share the same set of nodes.
        digest = hashlib.blake2b(f'{balancer.id} {host.name}'.encode(),
                                 digest_size=8).digest()
        return (*(weigh(host, balancer.document)
                  for weigh in self._weighers), digest)

    def _is_live(self, name: str) -> bool:
        return self.cluster.condition(name) is clusters.Condition.LIVE

    def _reasons(self, placements: Iterable[rows.Placement]
                 ) -> dict[str, moves.Reason]:
        """Return host → Reason to take the load balancer away."""
        reasons = {row.host: self._reason(row) for row in placements}
        return {host: reason for host, reason in reasons.items() if reason}

    def _reason(self, row: rows.Placement) -> moves.Reason | None:
        """Return the Reason to take the load balancer away, or None."""
        condition = self.cluster.condition(row.host)
        if condition is clusters.Condition.DEAD:
            return moves.Reason.DEAD
        if condition is clusters.Condition.DISABLED:
            return moves.Reason.DISABLED
        if condition is clusters.Condition.DRAINING:
            return moves.Reason.DRAINED
        if row.error:
            return moves.Reason.FAILING
        return moves.Reason.REPLACED if row.replace else None

    def _additions(self, balancer: rows.LoadBalancer,
                   by_host: Mapping[str, rows.Placement],
                   working: Iterable[rows.Placement], missing: int,
                   wanted: int) -> tuple[str, ...]:
        """Return the best hosts to fill in for the missing ones."""
        # A load balancer that every node fails to apply is not tried on all
        # of them: unless some node applied it, the failing nodes are replaced
        # by at most one.
        failing = sum(self._reason(row) is moves.Reason.FAILING
                      for row in by_host.values())
        possible = any(self.is_fine(balancer, row)
                       for row in by_host.values())
        if not possible and failing > wanted:
            return ()
        if missing <= 0:
            return ()
        return tuple(host.name for host in spreads.pick(
            self.spread(balancer), self.candidates(balancer, by_host),
            spreads.count(self.hosts(working)), missing,
            {host.zone for host in self.hosts(by_host.values())
             if self._reason(by_host[host.name]) is moves.Reason.REPLACED}))

    def hosts(self, placements: Iterable[rows.Placement]
              ) -> list[clusters.Host]:
        """Return the known Hosts of placements."""
        return [self.cluster.hosts[row.host] for row in placements
                if row.host in self.cluster.hosts]

    def _surplus(self, balancer: rows.LoadBalancer,
                 working: Sequence[rows.Placement], wanted: int) -> list[str]:
        """Return surplus hosts, once all have applied the load balancer.

        Not earlier, as a node that was just added may be the better one.
        """
        if any(row.synced_generation < balancer.generation
               for row in working):
            return []
        draining = {row.host for row in working
                    if row.draining_since is not None}
        hosts, surplus = self.hosts(working), list[str]()
        while len(hosts) > wanted:
            host = self.worst(balancer, hosts, draining)
            live = sum(self._is_live(other.name) for other in hosts)
            if (self._is_live(host.name) and live <= wanted
                    and host.name not in draining):
                break  # Until it is known whether a silent one is back.
            hosts.remove(host)
            surplus.append(host.name)
        return surplus

    def worst(self, balancer: rows.LoadBalancer,
              hosts: Sequence[clusters.Host],
              draining: Collection[str] = ()) -> clusters.Host:
        """Return the host that a load balancer leaves first."""
        return min(spreads.fullest(self.spread(balancer), hosts),
                   key=lambda host: (
                       # NAT flows take long to end: stay with the earlier
                       # choice.
                       host.name not in draining,
                       host.condition is clusters.Condition.LIVE,
                       self._rank(host, balancer)))
