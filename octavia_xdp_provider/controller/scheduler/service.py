# SPDX-License-Identifier: Apache-2.0
"""The scheduler reads a load balancer's rows and stores its moves.

It keeps no state in memory that matters: after a restart it makes the same
decisions. A move is stored only if the placements are still those that it was
decided on, so that several schedulers never place a load balancer twice.
"""

import dataclasses
import threading
import time

from oslo_log import log as logging
import stevedore

from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.scheduler import rebalance
from octavia_xdp_provider.controller.scheduler import removal_budget

LOG = logging.getLogger(__name__)

FILTERS = 'octavia_xdp.scheduler.filters'
WEIGHERS = 'octavia_xdp.scheduler.weighers'

# Conditions of nodes that keep their load balancers.
_KEEPS = (clusters.Condition.LIVE, clusters.Condition.SILENT)


class MoveRefused(Exception):
    """A requested move is not possible; the text tells why."""


class PluginError(Exception):
    """A configured filter or weigher is not installed."""


def _plugins(namespace, option, names):
    def fail(missing):
        raise PluginError(
            f'[placement] {option} names {", ".join(sorted(missing))}, which '
            f'no installed package registers in {namespace}')

    manager = stevedore.NamedExtensionManager(
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

    notify: frozenset = frozenset()
    conflict: bool = False
    deferred: int = 0
    again_in_s: float | None = None
    moved: bool = False


class Scheduler:
    """Decides on moves and stores them. Callers notify the nodes.

    Thread-safe. The constructor raises PluginError.
    """

    def __init__(self, conf, store):
        self._conf = conf.placement
        self._store = store
        self._filters = [*filters.ALWAYS, *_plugins(
            FILTERS, 'filters', self._conf.filters)]
        self._weighers = _plugins(WEIGHERS, 'weighers', self._conf.weighers)
        # The next decision must see the load that this one adds.
        self._lock = threading.Lock()
        self._exhausted = _Exhausted(self._conf.removal_budget_period)

    def place(self, situation):
        """Store the move that a load balancer needs.

        :param situation: see store/situations.py; it is only used to tell
            whether there is anything to decide.
        :returns: a Placed.
        """
        balancer = situation.balancer
        placements = _staying(situation.placements)
        if self._is_settled(balancer, placements,
                            clusters.conditions(situation.conditions)):
            return Placed()
        conditions = clusters.conditions(self._store.conditions())
        if self._is_served_by_all(balancer, placements, conditions):
            return Placed()
        with self._lock:
            load = self._store.load()
            decider = self._decider(load, conditions)
            placements = self._placements(balancer.id)
            move = decider.decide(
                balancer, placements,
                self._store.active_flows(balancer.id)
                if flavor.is_nat(balancer.document['flavor']) else None)
            if move is None:
                # For example, where an operator has placed it.
                return Placed(frozenset(
                    row.host for row in placements
                    if not row.synced_generation
                    and conditions.get(row.host) in clusters.REACHABLE))
            budget = removal_budget.allowance(
                sum(load.values()), self._conf.removal_budget_percent,
                self._conf.removal_budget_min)
            move, deferred = self._within_budget(move, budget)
            if move is None:
                return Placed(deferred=deferred)
            return self._apply(move, budget, conditions, deferred)

    def _placements(self, load_balancer_id):
        return _staying(self._store.placements([load_balancer_id]))

    def _is_settled(self, balancer, placements, conditions):
        """Return whether there is nothing to decide, the usual case."""
        return (len(placements) == self._wanted(balancer)
                and _are_fine(placements, conditions))

    def _is_served_by_all(self, balancer, placements, conditions):
        """Return whether it has too few nodes and no other node is live."""
        hosts = {row.host for row in placements}
        return (len(hosts) < self._wanted(balancer)
                and _are_fine(placements, conditions)
                and not any(condition is clusters.Condition.LIVE
                            and host not in hosts
                            for host, condition in conditions.items()))

    def _wanted(self, balancer):
        return balancer.document['flavor'].get('replicas',
                                               self._conf.replicas)

    def _decider(self, load, conditions, drain_s=None):
        nodes = self._store.nodes()
        return decision.Decider(
            clusters.Cluster(nodes, load, {
                node.host: conditions.get(node.host,
                                          clusters.Condition.SILENT)
                for node in nodes}),
            self._filters, self._weighers, self._conf.replicas,
            self._conf.drain_time if drain_s is None else drain_s,
            self._store.now(),
            self._conf.nat_drain_time if drain_s is None else drain_s,
            self._conf.settle_time)

    def _within_budget(self, move, budget):
        """Return the allowed move or None, and the number of deferred
        removals."""
        if not any(why.is_failure for why in move.remove.values()):
            return move, 0
        span = self._conf.removal_budget_period
        used = self._store.removals_since(span)
        moves, deferred = removal_budget.cut([move], budget - used)
        if deferred and self._exhausted.is_news(time.monotonic()):
            number = self._store.on_failed_nodes()
            LOG.error(
                '%s VIPs are on nodes that failed, beyond the %s removals '
                'that [placement] removal_budget_percent allows in %s s: '
                'they stay announced there if the nodes are alive. If the '
                'nodes are really lost, run "octavia-xdp-manage placement '
                'allow-removals --count %s".', number, budget, span, number)
        return (moves[0] if moves else None), deferred

    def _apply(self, move, budget, conditions, deferred):
        if not move.changes_something:
            return Placed(deferred=deferred, again_in_s=move.again_in_s)
        failed = sum(why.is_failure for why in move.remove.values())
        if not self._store.place(
                move.load_balancer_id, move.add, tuple(move.remove),
                drain=move.drain, withdraw=move.withdraw,
                restore=move.restore,
                decided_on=move.decided_on, failed=failed,
                budget=(budget, self._conf.removal_budget_period)):
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

    def rebalance(self, moves_max=None):
        """Begin at most one move that evens out the load.

        :param moves_max: limit of moves under way. Default: ``[placement]
            rebalance_moves_max``.
        :returns: id of the load balancer and name of its new host, or None.
        """
        replicas = self._conf.replicas
        if moves_max is None:
            moves_max = self._conf.rebalance_moves_max
        if not moves_max:
            return None
        conditions = clusters.conditions(self._store.conditions())
        with self._lock:
            load = self._store.load()
            if rebalance.names_of_extremes(load, conditions) is None:
                return None  # The usual case: do not read long reports.
            decider = self._decider(load, conditions)
            extremes = rebalance.extremes(decider.cluster)
            if (extremes is None
                    or self._store.under_way(replicas) >= moves_max):
                return None
            fullest, emptiest = extremes
            movable = self._store.movable(fullest.name, emptiest.name,
                                          replicas, rebalance.MOVABLE_MAX)
            move = rebalance.move(
                decider, ((row, [placement.host for placement
                                 in self._placements(row.id)])
                          for row in movable), emptiest)
            if move is None or not self._store.place(
                    move.load_balancer_id, move.add,
                    decided_on=move.decided_on):
                return None
        LOG.info('Load balancer %s moves from node %s to %s, to even out '
                 'the load.', move.load_balancer_id, fullest.name,
                 emptiest.name)
        return move.load_balancer_id, emptiest.name

    def refusals(self, balancer):
        """Return host → reason, for the hosts that may not be given a load
        balancer."""
        decider = self._decider(
            self._store.load(),
            clusters.conditions(self._store.conditions()))
        reasons = {name: decider.refusal(host, balancer.document)
                   for name, host in decider.cluster.hosts.items()}
        return {name: reason for name, reason in sorted(reasons.items())
                if reason}

    def plan(self):
        """Return the moves that would even out the load, see rebalance.plan.
        """
        decider = self._decider(
            self._store.load(),
            clusters.conditions(self._store.conditions()), drain_s=0)
        placements = {}
        for row in self._store.placements():
            if row.removed_generation is None:
                placements.setdefault(row.load_balancer_id, []).append(row)
        return list(rebalance.plan(
            decider, {row.id: row for row in self._store.load_balancers()
                      if row.generation and not row.deleted}, placements))

    def move(self, balancer, source, target):
        """Begin a move that an operator requests.

        The load balancer is added to the target. Once the target has applied
        and announced it, the source drains and loses it.

        :raises MoveRefused: the move is not possible.
        """
        with self._lock:
            decider = self._decider(
                self._store.load(),
                clusters.conditions(self._store.conditions()))
            hosts = {row.host for row in self._placements(balancer.id)}
            target_host = decider.cluster.hosts.get(target)
            problem = None
            if source not in hosts:
                problem = f'it is not on {source}'
            elif target in hosts:
                problem = f'it is already on {target}'
            elif target_host is None:
                problem = f'node {target} is unknown'
            else:
                problem = decider.refusal(target_host, balancer.document)
                problem = problem and f'{target} cannot take it: {problem}'
            if problem:
                raise MoveRefused(problem)
            if not self._store.place(
                    balancer.id, (target,), replace=(source,),
                    decided_on=frozenset(hosts)):
                raise MoveRefused('another controller placed it meanwhile; '
                                  'try again')
        self._store.mark([balancer.id])


def _describe(move):
    """Describe a move for the log."""
    parts = [f'{text} {", ".join(hosts)}' for text, hosts in (
        ('added to', move.add), ('begins to drain on', move.drain),
        ('only keeps its flows on', move.withdraw),
        ('is announced normally again on', move.restore)) if hosts]
    parts += [f'leaves {host} ({reason.value})'
              for host, reason in move.remove.items()]
    return '; '.join(parts)


def _are_fine(placements, conditions):
    """Return whether no node drains, or is to be replaced or drained."""
    return all(conditions.get(row.host) in _KEEPS and not row.error
               and not row.replace and row.draining_since is None
               for row in placements)


def _staying(placements):
    return [row for row in placements if row.removed_generation is None]


class _Exhausted:
    """Limits the log to one line about an exhausted budget per time span.

    Thousands of load balancers may find it exhausted at once.
    """

    def __init__(self, span_s):
        self._span = span_s
        self._logged_at = None

    def is_news(self, now):
        """Return whether the line is due, and count it as logged."""
        if (self._logged_at is not None
                and now - self._logged_at < self._span):
            return False
        self._logged_at = now
        return True
