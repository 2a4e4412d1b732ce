# SPDX-License-Identifier: Apache-2.0
"""The scheduler: from the stored rows to moves that are stored.

It remembers nothing that it needs: killed and started again it finds the
same thing to do. A move is stored only if the placements are still those
that it was decided on, so that several schedulers never place twice.
"""

import collections

from oslo_log import log as logging
import stevedore

from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import rebalance
from octavia_xdp_provider.controller.scheduler import removal_budget

LOG = logging.getLogger(__name__)

FILTERS = 'octavia_xdp.scheduler.filters'
WEIGHERS = 'octavia_xdp.scheduler.weighers'


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


class Scheduler:
    """Decides and stores; whom to wake is the caller's business.

    :raises PluginError: of the constructor.
    """

    def __init__(self, conf, store, liveness):
        self._conf = conf.placement
        self._store = store
        self._liveness = liveness
        self._filters = _plugins(FILTERS, 'filters', self._conf.filters)
        self._weighers = _plugins(WEIGHERS, 'weighers', self._conf.weighers)
        self._left_out = 0

    def place(self, load_balancer_ids=None):
        """Store the moves that are needed.

        :param load_balancer_ids: look at these only; None: at all of them,
            and even out the load.
        :returns: hosts whose placements changed.
        """
        load = self._store.load()
        decider = decision.Decider(
            self._cluster(load), self._filters, self._weighers,
            self._conf.replicas)
        placements_of = collections.defaultdict(list)
        for row in self._store.placements(load_balancer_ids):
            if row.removed_generation is None:
                placements_of[row.load_balancer_id].append(row)
        balancers = [row for row
                     in self._store.load_balancers(load_balancer_ids)
                     if not row.deleted]
        moves = [move for move in (
            decider.decide(balancer, placements_of[balancer.id])
            for balancer in balancers) if move is not None]
        moves = self._within_budget(moves, sum(load.values()))
        if load_balancer_ids is None:
            moves += rebalance.moves(
                decider, balancers, placements_of,
                0 if moves else self._conf.rebalance_moves_max)
        return self._apply(moves)

    def _cluster(self, load):
        nodes = self._store.nodes()
        return clusters.Cluster(nodes, load, {
            node.host: clusters.condition(
                node, self._liveness.silence_s(node),
                self._conf.node_timeout,
                max(self._conf.node_timeout, self._conf.replace_after))
            for node in nodes})

    def _within_budget(self, moves, placements):
        if not any(why.is_failure for move in moves
                   for why in move.remove.values()):
            self._left_out = 0
            return moves
        span = self._conf.removal_budget_span
        free = removal_budget.allowance(
            placements, self._conf.removal_budget_percent,
            self._conf.removal_budget_least)
        used = self._store.removals_since(span)
        moves, left_out = removal_budget.cut(moves, free - used)
        if left_out and left_out != self._left_out:
            LOG.error(
                '%s VIPs shall leave nodes that failed, beyond the %s '
                'removals that [placement] removal_budget_percent allows '
                'in %s s: they stay announced there should the nodes live. '
                'If the nodes are really lost, say "octavia-xdp-manage '
                'placement allow-removals --count %s".', left_out, free,
                span, left_out)
        self._left_out = left_out
        return moves

    def _apply(self, moves):
        touched = set()
        for move in moves:
            failed = sum(why.is_failure for why in move.remove.values())
            if not self._store.place(move.load_balancer_id, move.add,
                                     tuple(move.remove),
                                     decided_on=move.decided_on,
                                     failed=failed):
                LOG.info('Load balancer %s was placed by somebody else '
                         'meanwhile.', move.load_balancer_id)
                continue
            LOG.info('Load balancer %s: added to nodes %s, leaves %s.',
                     move.load_balancer_id, list(move.add),
                     {host: why.value for host, why in move.remove.items()})
            touched.update(move.add, move.remove)
        return touched
