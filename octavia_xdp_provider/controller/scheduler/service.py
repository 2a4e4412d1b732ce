# SPDX-License-Identifier: Apache-2.0
"""The scheduler reads a load balancer's rows and stores its moves.

It keeps no state in memory that matters: after a restart it makes the same
decisions. A move is stored only if the placements are still those that it was
decided on, so that several schedulers never place a load balancer twice.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import threading
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
import stevedore

from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.scheduler import moves
from octavia_xdp_provider.controller.scheduler import proxy_decision
from octavia_xdp_provider.controller.scheduler import rebalance
from octavia_xdp_provider.controller.scheduler import removal_budget
from octavia_xdp_provider.controller.scheduler import spread as spreads
from octavia_xdp_provider.controller.scheduler import weighers
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.controller.store import situations

LOG = logging.getLogger(__name__)

FILTERS = 'octavia_xdp.scheduler.filters'
WEIGHERS = 'octavia_xdp.scheduler.weighers'

_NODE: dict[rows.Role, str] = {rows.LB: 'LB', rows.PROXY: 'proxy'}

# Conditions of nodes that keep their load balancers.
_KEEPS = (clusters.Condition.LIVE, clusters.Condition.SILENT)


class MoveRefused(Exception):
    """A requested move is not possible; the text tells why."""


class PluginError(Exception):
    """A configured filter or weigher is not installed."""


def _plugins(namespace: str, option: str, names: list[str]) -> list[Any]:
    def fail(missing: Iterable[str]) -> None:
        raise PluginError(
            f'[placement] {option} names {", ".join(sorted(missing))}, which '
            f'no installed package registers in {namespace}')

    manager: Any = stevedore.NamedExtensionManager(
        namespace, names, name_order=True,
        on_missing_entrypoints_callback=fail)
    return [extension.plugin for extension in manager]


@dataclasses.dataclass(frozen=True)
class Placed:
    """The result of Scheduler.place().

    ``moved``: whether the placements changed. ``notify``: reachable hosts
    whose placements changed. ``conflict``: another controller placed the load
    balancer meanwhile. ``deferred``: number of removals that the budget does
    not allow now. ``again_in_s``: seconds until the next decision is due, or
    None.
    """

    notify: frozenset[str] = frozenset()
    conflict: bool = False
    deferred: int = 0
    again_in_s: float | None = None
    moved: bool = False

    def __add__(self, other: 'Placed') -> 'Placed':
        return Placed(
            self.notify | other.notify, self.conflict or other.conflict,
            self.deferred + other.deferred,
            min((again_in_s for again_in_s
                 in (self.again_in_s, other.again_in_s)
                 if again_in_s is not None), default=None),
            self.moved or other.moved)


class Scheduler:
    """Decides on moves and stores them. Callers notify the nodes.

    Thread-safe. The constructor raises PluginError.

    :ivar conf: ``[placement]``.
    :ivar lock: held while a move is decided and stored.
    """

    def __init__(self, conf: cfg.ConfigOpts, store: queries.Store) -> None:
        self.conf = conf.placement
        self.store = store
        self._filters: list[filters.Filter] = [*filters.ALWAYS, *_plugins(
            FILTERS, 'filters', self.conf.filters)]
        self._weighers: list[weighers.Weigher] = _plugins(
            WEIGHERS, 'weighers', self.conf.weighers)
        # The next decision must see the load that this one adds.
        self.lock = threading.Lock()
        self._exhausted = _Exhausted(self.conf.removal_budget_period)

    def place(self, situation: situations.Situation) -> Placed:
        """Store the moves that a load balancer needs.

        :param situation: see store/situations.py; it is only used to tell
            whether there is anything to decide.
        :returns: a Placed.
        """
        return (self._place(situation, rows.LB)
                + self._place(situation, rows.PROXY))

    def _place(self, situation: situations.Situation, role: rows.Role
               ) -> Placed:
        """Store the move among nodes of one role."""
        balancer = situation.balancer
        placements = _staying(situation.placements, role)
        wanted = self._wanted(balancer, role)
        if self._is_settled(wanted, placements,
                            clusters.conditions(situation.conditions)):
            return Placed()
        conditions = clusters.conditions(self.store.nodes.conditions(role))
        if self._is_served_by_all(wanted, placements, conditions):
            return Placed()
        with self.lock:
            load = self.store.placements.load()
            decider = self.decider(load, conditions, role=role)
            all_placements = self.store.placements.select([balancer.id])
            placements = _staying(all_placements, role)
            move = decider.decide(balancer, placements, self._traffic(
                balancer, all_placements, role))
            if move is None:
                # For example, where an operator has placed it.
                return Placed(frozenset(
                    row.host for row in placements
                    if not row.synced_generation
                    and conditions.get(row.host) in clusters.REACHABLE))
            budget = removal_budget.allowance(
                sum(load.values()), self.conf.removal_budget_percent,
                self.conf.removal_budget_min)
            move, deferred = self._within_budget(move, budget)
            if move is None:
                return Placed(deferred=deferred)
            return self._apply(move, budget, conditions, deferred, role)

    def _traffic(self, balancer: rows.LoadBalancer,
                 placements: Sequence[rows.Placement], role: rows.Role
                 ) -> decision.Traffic:
        if role == rows.PROXY:
            return decision.Traffic(unused=proxy_decision.unused(
                balancer, placements, clusters.conditions(
                    self.store.nodes.conditions(rows.LB))))
        if flavor.is_nat(balancer.document['flavor']):
            return decision.Traffic(
                self.store.placements.active_flows(balancer.id))
        return decision.Traffic()

    def placements(self, load_balancer_id: str, role: rows.Role
                   ) -> list[rows.Placement]:
        """Return a load balancer's placements on nodes of a role that are not
        being removed."""
        return _staying(self.store.placements.select([load_balancer_id]),
                        role)

    def _is_settled(self, wanted: int,
                    placements: Sequence[rows.Placement],
                    conditions: Mapping[str, clusters.Condition]) -> bool:
        """Return whether there is nothing to decide, the usual case."""
        return (len(placements) == wanted
                and _are_fine(placements, conditions))

    def _is_served_by_all(self, wanted: int,
                          placements: Sequence[rows.Placement],
                          conditions: Mapping[str, clusters.Condition]
                          ) -> bool:
        """Return whether it has too few nodes and no other node is live."""
        hosts = {row.host for row in placements}
        return (len(hosts) < wanted
                and _are_fine(placements, conditions)
                and not any(condition is clusters.Condition.LIVE
                            and host not in hosts
                            for host, condition in conditions.items()))

    def _wanted(self, balancer: rows.LoadBalancer, role: rows.Role) -> int:
        if role == rows.PROXY and not tiers.needs_proxies(balancer.document):
            return 0
        return int(balancer.document['flavor'].get('replicas',
                                                   self.conf.replicas))

    def decider(self, load: Mapping[str, int],
                conditions: Mapping[str, clusters.Condition],
                drain_s: float | None = None, role: rows.Role = rows.LB
                ) -> decision.Decider:
        """Return a Decider with the nodes of a role as they are now.

        :param load: host → number of its load balancers.
        :param conditions: host → Condition.
        :param drain_s: in place of the configured times of drains.
        """
        nodes = [node for node in self.store.nodes.all() if node.role == role]
        drain_time = self.conf.drain_time
        decider = decision.Decider
        if role == rows.PROXY:
            drain_time = self.conf.proxy_drain_time
            decider = proxy_decision.ProxyDecider
        return decider(
            clusters.Cluster(nodes, load, {
                node.host: conditions.get(node.host,
                                          clusters.Condition.SILENT)
                for node in nodes}),
            self._filters, self._weighers, self.conf.replicas,
            drain_time if drain_s is None else drain_s,
            self.store.database.now(),
            self.conf.nat_drain_time if drain_s is None else drain_s,
            self.conf.settle_time, self.conf.spread)

    def _within_budget(self, move: moves.Move, budget: int
                       ) -> tuple[moves.Move | None, int]:
        """Return the allowed move or None, and the number of deferred
        removals."""
        if not any(why.is_failure for why in move.remove.values()):
            return move, 0
        span = self.conf.removal_budget_period
        used = self.store.placements.removals_since(span)
        allowed, deferred = removal_budget.cut([move], budget - used)
        if deferred and self._exhausted.is_news(time.monotonic()):
            number = self.store.placements.on_failed_nodes()
            LOG.error(
                '%s VIPs are on nodes that failed, beyond the %s removals '
                'that [placement] removal_budget_percent allows in %s s: '
                'they stay announced there if the nodes are alive. If the '
                'nodes are really lost, run "octavia-xdp-manage placement '
                'allow-removals --count %s".', number, budget, span, number)
        return (allowed[0] if allowed else None), deferred

    def _apply(self, move: moves.Move, budget: int,
               conditions: Mapping[str, clusters.Condition], deferred: int,
               role: rows.Role) -> Placed:
        if not move.changes_something:
            return Placed(deferred=deferred, again_in_s=move.again_in_s)
        failed = sum(why.is_failure for why in move.remove.values())
        if not self.store.placements.place(
                move.load_balancer_id, move.add, tuple(move.remove),
                drain=move.drain, withdraw=move.withdraw,
                restore=move.restore,
                decided_on=move.decided_on, failed=failed,
                budget=(budget, self.conf.removal_budget_period), role=role):
            LOG.info('Load balancer %s was placed by another controller '
                     'meanwhile.', move.load_balancer_id)
            return Placed(conflict=True)
        LOG.info('Load balancer %s: %s.', move.load_balancer_id,
                 _describe(move))
        return Placed(frozenset(
            host for host in (*move.add, *move.remove, *move.drain,
                              *move.withdraw, *move.restore)
            if conditions.get(host) in clusters.REACHABLE),
            deferred=deferred, again_in_s=move.again_in_s,
            moved=True)

    def current_decider(self, role: rows.Role) -> decision.Decider:
        """Return a Decider with load and conditions as they are now."""
        return self.decider(
            self.store.placements.load(),
            clusters.conditions(self.store.nodes.conditions(role)), role=role)

    def refusals(self, balancer: rows.LoadBalancer,
                 get_decider: Callable[[rows.Role], decision.Decider] | None
                 = None, roles: Iterable[rows.Role] = rows.ROLES
                 ) -> dict[str, str]:
        """Return host → reason, for the hosts that may not be given a load
        balancer, or one more node of it; without proxy nodes if it needs none.

        :param get_decider: in place of current_decider.
        :param roles: of the hosts that are looked at.
        """
        get_decider = get_decider or self.current_decider
        reasons: dict[str, str | None] = {}
        for role in roles:
            if not self._wanted(balancer, role):
                continue
            decider = get_decider(role)
            zones = {} if decider.spread(balancer) != spreads.REQUIRE else {
                host.zone: host.name for host in decider.hosts(
                    self.placements(balancer.id, role))}
            reasons.update({
                name: decider.refusal(host, balancer.document) or (
                    f'its zone {host.zone!r} has {zones[host.zone]}, and '
                    'spread is require' if host.zone in zones else None)
                for name, host in decider.cluster.hosts.items()})
        return {name: reason for name, reason in sorted(reasons.items())
                if reason}

    def move(self, balancer: rows.LoadBalancer, source: str, target: str
             ) -> None:
        """Begin a move that an operator requests.

        The load balancer is added to the target. Once the target has applied
        and announced it, the source drains and loses it.

        :raises MoveRefused: the move is not possible.
        """
        with self.lock:
            roles: list[rows.Role] = [
                row.role for row in self.store.placements.select([balancer.id])
                if row.host == source]
            role = roles[0] if roles else rows.LB
            decider = self.current_decider(role)
            hosts = {row.host for row in self.placements(balancer.id, role)}
            target_host = decider.cluster.hosts.get(target)
            problem = None
            if source not in hosts:
                problem = f'it is not on {source}'
            elif target in hosts:
                problem = f'it is already on {target}'
            elif target_host is None:
                problem = (f'{target} is no {_NODE[role]} node'
                           if target in self.store.nodes.hosts()
                           else f'node {target} is unknown')
            else:
                problem = decider.refusal(
                    target_host, balancer.document
                ) or rebalance.spread_refusal(
                    decider, balancer, hosts, source, target_host)
                problem = problem and f'{target} cannot take it: {problem}'
            if problem:
                raise MoveRefused(problem)
            if not self.store.placements.place(
                    balancer.id, (target,), replace=(source,),
                    decided_on=frozenset(hosts), role=role):
                raise MoveRefused('another controller placed it meanwhile; '
                                  'try again')
        self.store.work.mark([balancer.id])


def _describe(move: moves.Move) -> str:
    """Describe a move for the log."""
    parts = [f'{text} {", ".join(hosts)}' for text, hosts in (
        ('added to', move.add), ('begins to drain on', move.drain),
        ('only keeps its flows on', move.withdraw),
        ('is announced normally again on', move.restore)) if hosts]
    parts += [f'leaves {host} ({reason.value})'
              for host, reason in move.remove.items()]
    return '; '.join(parts)


def _are_fine(placements: Iterable[rows.Placement],
              conditions: Mapping[str, clusters.Condition]) -> bool:
    """Return whether no node drains, or is to be replaced or drained."""
    return all(conditions.get(row.host) in _KEEPS and not row.error
               and not row.replace and row.draining_since is None
               for row in placements)


def _staying(placements: Iterable[rows.Placement], role: rows.Role
             ) -> list[rows.Placement]:
    return [row for row in placements
            if row.removed_generation is None and row.role == role]


class _Exhausted:
    """Limits the log to one line about an exhausted budget per time span.

    Thousands of load balancers may find it exhausted at once.
    """

    def __init__(self, span_s: float) -> None:
        self._span = span_s
        self._logged_at: float | None = None

    def is_news(self, now: float) -> bool:
        """Return whether the line is due, and count it as logged."""
        if (self._logged_at is not None
                and now - self._logged_at < self._span):
            return False
        self._logged_at = now
        return True
