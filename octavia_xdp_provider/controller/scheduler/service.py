# SPDX-License-Identifier: Apache-2.0
"""The scheduler: from the stored rows of a load balancer to stored moves.

It remembers nothing that it needs: killed and started again it finds the
same thing to do. A move is stored only if the placements are still those
that it was decided on, so that several schedulers never place twice.
"""

import dataclasses
import threading
import time

from oslo_log import log as logging
import stevedore

from octavia_xdp_provider.common import flavor
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.scheduler import rebalance
from octavia_xdp_provider.controller.scheduler import removal_budget

LOG = logging.getLogger(__name__)

FILTERS = 'octavia_xdp.scheduler.filters'
WEIGHERS = 'octavia_xdp.scheduler.weighers'

# Conditions of nodes that keep what they have.
_KEEPS = (clusters.Condition.LIVE, clusters.Condition.SILENT)


class MoveRefused(Exception):
    """A move that was asked for cannot be made; the text says why."""


class PluginError(Exception):
    """A filter or weigher that the configuration names is not there."""


def _plugins(namespace, option, names):
    def missing(lost):
        raise PluginError(
            f'[placement] {option} names {", ".join(sorted(lost))}, which no '
            f'installed package registers in {namespace}')

    manager = stevedore.NamedExtensionManager(
        namespace, names, name_order=True,
        on_missing_entrypoints_callback=missing)
    return [extension.plugin for extension in manager]


@dataclasses.dataclass(frozen=True)
class Placed:
    """What became of a load balancer's placement.

    ``moved``: whether its placements changed. ``notify``: hosts that are
    heard and whose placements changed. ``again``: somebody else placed it
    meanwhile. ``left_out``: removals that the budget does not allow now.
    ``again_in_s``: when a node will have drained, or None.
    """

    notify: frozenset = frozenset()
    again: bool = False
    left_out: int = 0
    again_in_s: float | None = None
    moved: bool = False


class Scheduler:
    """Decides and stores; whom to notify is the caller's business.

    Any thread may use it.

    :raises PluginError: of the constructor.
    """

    def __init__(self, conf, store):
        self._conf = conf.placement
        self._store = store
        self._filters = [*filters.ALWAYS, *_plugins(
            FILTERS, 'filters', self._conf.filters)]
        self._weighers = _plugins(WEIGHERS, 'weighers', self._conf.weighers)
        # Who decides next shall see the load that this decision makes.
        self._lock = threading.Lock()
        self._exhausted = _Exhausted(self._conf.removal_budget_span)

    def place(self, situation):
        """Store the move that a load balancer needs. Returns Placed.

        :param situation: store/situations.py; if there is something to
            decide it is read again.
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
                # Where an operator has put it, say.
                return Placed(frozenset(
                    row.host for row in placements
                    if not row.synced_generation
                    and conditions.get(row.host) in clusters.HEARD))
            budget = removal_budget.allowance(
                sum(load.values()), self._conf.removal_budget_percent,
                self._conf.removal_budget_least)
            move, left_out = self._within_budget(move, budget)
            if move is None:
                return Placed(left_out=left_out)
            return self._apply(move, budget, conditions, left_out)

    def _placements(self, load_balancer_id):
        return _staying(self._store.placements([load_balancer_id]))

    def _is_settled(self, balancer, placements, conditions):
        """Whether there is nothing to decide, which is the usual case."""
        return (len(placements) == self._wanted(balancer)
                and _are_fine(placements, conditions))

    def _is_served_by_all(self, balancer, placements, conditions):
        """Whether it is on too few nodes, and there is no other."""
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
        """:returns: the move or None, how many removals were left out."""
        if not any(why.is_failure for why in move.remove.values()):
            return move, 0
        span = self._conf.removal_budget_span
        used = self._store.removals_since(span)
        moves, left_out = removal_budget.cut([move], budget - used)
        if left_out and self._exhausted.is_news(time.monotonic()):
            number = self._store.on_failed_nodes()
            LOG.error(
                '%s VIPs are on nodes that failed, beyond the %s removals '
                'that [placement] removal_budget_percent allows in %s s: '
                'they stay announced there should the nodes live. If the '
                'nodes are really lost, say "octavia-xdp-manage placement '
                'allow-removals --count %s".', number, budget, span, number)
        return (moves[0] if moves else None), left_out

    def _apply(self, move, budget, conditions, left_out):
        if not move.changes_something:
            return Placed(left_out=left_out, again_in_s=move.again_in_s)
        failed = sum(why.is_failure for why in move.remove.values())
        if not self._store.place(
                move.load_balancer_id, move.add, tuple(move.remove),
                drain=move.drain, withdraw=move.withdraw,
                restore=move.restore,
                decided_on=move.decided_on, failed=failed,
                budget=(budget, self._conf.removal_budget_span)):
            LOG.info('Load balancer %s was placed by somebody else '
                     'meanwhile.', move.load_balancer_id)
            return Placed(again=True)
        LOG.info('Load balancer %s: %s.', move.load_balancer_id,
                 _words(move))
        return Placed(frozenset(
            host for host in (*move.add, *move.remove, *move.drain,
                              *move.withdraw, *move.restore)
            if conditions.get(host) in clusters.HEARD),
            left_out=left_out, again_in_s=move.again_in_s,
            moved=True)

    def rebalance(self, moves_max=None):
        """Begin at most one move that evens out the load.

        :param moves_max: none is begun while so many are under way. Default:
            ``[placement] rebalance_moves_max``.
        :returns: id of the load balancer and host, or None.
        """
        replicas = self._conf.replicas
        if moves_max is None:
            moves_max = self._conf.rebalance_moves_max
        if not moves_max:
            return None
        conditions = clusters.conditions(self._store.conditions())
        with self._lock:
            load = self._store.load()
            if rebalance.names_of_ends(load, conditions) is None:
                return None  # Mostly, and what nodes report is long.
            decider = self._decider(load, conditions)
            found = rebalance.ends(decider.cluster)
            if found is None or self._store.under_way(replicas) >= moves_max:
                return None
            fullest, emptiest = found
            movable = self._store.movable(fullest.name, emptiest.name,
                                          replicas, rebalance.MOVABLE_MAX)
            move = rebalance.move(
                decider, ((row, [one.host for one
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
        """Host → why it may not be given a load balancer, of those that may
        not."""
        decider = self._decider(
            self._store.load(),
            clusters.conditions(self._store.conditions()))
        found = {name: decider.refusal(host, balancer.document)
                 for name, host in decider.cluster.hosts.items()}
        return {name: why for name, why in sorted(found.items()) if why}

    def plan(self):
        """The moves that would even out the load, see rebalance.plan."""
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
        """Begin a move that a person asks for.

        It is added to the target, and leaves the source once the target has
        it and announces it. The source drains then.

        :raises MoveRefused: it cannot be made.
        """
        with self._lock:
            decider = self._decider(
                self._store.load(),
                clusters.conditions(self._store.conditions()))
            hosts = {row.host for row in self._placements(balancer.id)}
            wanted = decider.cluster.hosts.get(target)
            problem = None
            if source not in hosts:
                problem = f'it is not on {source}'
            elif target in hosts:
                problem = f'it is on {target} already'
            elif wanted is None:
                problem = f'node {target} is unknown'
            else:
                problem = decider.refusal(wanted, balancer.document)
                problem = problem and f'{target} cannot have it: {problem}'
            if problem:
                raise MoveRefused(problem)
            if not self._store.place(
                    balancer.id, (target,), replace=(source,),
                    decided_on=frozenset(hosts)):
                raise MoveRefused('it was placed by somebody else meanwhile; '
                                  'try again')
        self._store.mark([balancer.id])


def _words(move):
    """What a move does, for the log."""
    words = [f'{text} {", ".join(hosts)}' for text, hosts in (
        ('added to', move.add), ('begins to drain on', move.drain),
        ('only keeps its flows on', move.withdraw),
        ('is announced as ever on', move.restore)) if hosts]
    words += [f'leaves {host} ({why.value})'
              for host, why in move.remove.items()]
    return '; '.join(words)


def _are_fine(placements, conditions):
    """Whether no node is to be replaced or drained, nor drains."""
    return all(conditions.get(row.host) in _KEEPS and not row.error
               and not row.replace and row.draining_since is None
               for row in placements)


def _staying(placements):
    return [row for row in placements if row.removed_generation is None]


class _Exhausted:
    """Whether that the budget is used up is worth another line in the log.

    Each load balancer asks for itself, and thousands may at once.
    """

    def __init__(self, span_s):
        self._span = span_s
        self._said_at = None

    def is_news(self, now):
        if self._said_at is not None and now - self._said_at < self._span:
            return False
        self._said_at = now
        return True
