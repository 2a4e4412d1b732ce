# SPDX-License-Identifier: Apache-2.0
"""Begins moves that spread load balancers over zones or even out the load."""

from collections.abc import Mapping
from collections.abc import Sequence
import time
from typing import Any

from oslo_log import log as logging

from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import filters
from octavia_xdp_provider.controller.scheduler import moves
from octavia_xdp_provider.controller.scheduler import rebalance
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.controller.store import rows

LOG = logging.getLogger(__name__)

# Load balancers that one search for spreads to be mended examines, and seconds
# until a load balancer that was moved for its spread may be moved again: a
# node may fail to apply it each time.
_UNEVEN_MAX = 100
_MENDED_AGAIN_S = 300.0
# Seconds until load or spread are looked at again if nothing could be moved
# and no node has changed.
_AGAIN_S = 10.0

# What was found to be as even as possible, and until when that holds.
_Even = tuple[Any, float]
_Steps = list[rebalance.Step]


class Balancing:
    """Searches for such moves and stores them. Callers notify the nodes.

    LB nodes and proxy nodes are looked at one after the other.

    For one thread. Another controller may search as well: a move is stored
    only if the placements are those that it was decided on.
    """

    def __init__(self, scheduler: service.Scheduler) -> None:
        self._scheduler = scheduler
        self._conf = scheduler.conf
        self._store = scheduler.store
        self._even_load = dict[rows.Role, _Even]()
        self._even_spread = dict[rows.Role, _Even]()
        # Id after which the next search begins.
        self._uneven_after: dict[rows.Role, str] = dict.fromkeys(
            rows.ROLES, '')
        # (Role, load balancer id) → time.monotonic().
        self._mended: dict[tuple[rows.Role, str], float] = {}

    def rebalance(self, moves_max: int | None = None
                  ) -> tuple[str, str] | None:
        """Begin at most one move that evens out the load.

        :param moves_max: limit of moves under way. Default: ``[placement]
            rebalance_moves_max``.
        :returns: id of the load balancer and name of its new host, or None.
        """
        limit: int = (self._conf.rebalance_moves_max if moves_max is None
                      else moves_max)
        moved = (self._rebalance(role, limit) for role in rows.ROLES)
        return next(filter(None, moved), None) if limit else None

    def _rebalance(self, role: rows.Role, moves_max: int
                   ) -> tuple[str, str] | None:
        conditions = clusters.conditions(self._store.nodes.conditions(role))
        with self._scheduler.lock:
            load, now = self._store.placements.load(), time.monotonic()
            # The usual cases: do not read long reports.
            if _holds(self._even_load.get(role), (load, conditions), now):
                return None
            if not rebalance.names_of_extremes(
                    load, conditions, {**dict.fromkeys(conditions, ''),
                                       **self._store.nodes.zones()}):
                return None
            decider = self._scheduler.decider(load, conditions, role=role)
            extremes = rebalance.extremes(decider.cluster)
            if (not extremes or self._store.balance.moves_under_way(
                    self._conf.replicas) >= moves_max):
                return None
            for fullest, emptiest in extremes:
                move = self._evening(decider, fullest, emptiest)
                if move is not None:
                    break
            else:
                self._even_load[role] = (load, conditions), now + _AGAIN_S
                return None
            if not self._store.placements.place(
                    move.load_balancer_id, move.add,
                    decided_on=move.decided_on, role=role):
                return None
        LOG.info('Load balancer %s moves to node %s, to even out the load: '
                 'node %s has the most.', move.load_balancer_id,
                 emptiest.name, fullest.name)
        return move.load_balancer_id, emptiest.name

    def _evening(self, decider: decision.Decider, fullest: clusters.Host,
                 emptiest: clusters.Host) -> moves.Move | None:
        """Return the Move of a load balancer between two nodes, or None."""
        movable = self._store.balance.movable(
            fullest.name, emptiest.name, self._conf.replicas,
            rebalance.MOVABLE_MAX, decider.role)
        return rebalance.move(
            decider, ((row, [placement.host for placement
                             in self._scheduler.placements(
                                 row.id, decider.role)])
                      for row in movable), emptiest)

    def mend(self, moves_max: int | None = None) -> list[tuple[str, str]]:
        """Begin moves of load balancers whose nodes can be in more zones.

        :param moves_max: limit of moves under way. Default: ``[placement]
            spread_moves_max``.
        :returns: pairs of load balancer id and new host.
        """
        limit: int = (self._conf.spread_moves_max if moves_max is None
                      else moves_max)
        return [moved for role in rows.ROLES
                for moved in self._mend(role, limit)]

    def _mend(self, role: rows.Role, moves_max: int) -> list[tuple[str, str]]:
        conditions = clusters.conditions(self._store.nodes.conditions(role))
        zones = self._store.nodes.zones()
        live = {zones.get(host, '') for host, condition in conditions.items()
                if condition is clusters.Condition.LIVE}
        now = time.monotonic()
        if len(live) < 2 or not moves_max or _holds(
                self._even_spread.get(role), (conditions, zones), now):
            return []
        with self._scheduler.lock:
            free = moves_max - self._store.balance.moves_under_way(
                self._conf.replicas)
            if free <= 0:
                return []
            found = self._store.balance.uneven(
                rows.wanted(self._conf), len(live), self._uneven_after[role],
                _UNEVEN_MAX, role)
            # After the last one the search begins with the first one.
            self._uneven_after[role] = (
                found[-1].id if len(found) == _UNEVEN_MAX else '')
            begun = self._begin_mending(found, free, conditions, role)
            if not begun and not self._uneven_after[role]:
                self._even_spread[role] = (conditions, zones), now + _AGAIN_S
        for key, host in begun:
            LOG.info('Load balancer %s moves to node %s, to spread it over '
                     'zones.', key, host)
        return begun

    def _begin_mending(self, balancers: Sequence[rows.LoadBalancer],
                       number: int,
                       conditions: Mapping[str, clusters.Condition],
                       role: rows.Role) -> list[tuple[str, str]]:
        """Begin up to ``number`` moves; return as mend()."""
        now = time.monotonic()
        self._mended = {key: at for key, at in self._mended.items()
                        if now - at < _MENDED_AGAIN_S}
        begun: list[tuple[str, str]] = []
        if not balancers:
            return begun
        decider = self._scheduler.decider(self._store.placements.load(),
                                          conditions, role=role)
        for balancer in balancers:
            if len(begun) == number:
                # The next search begins here.
                self._uneven_after[role] = begun[-1][0]
                break
            is_done = (role, balancer.id) in self._mended
            move = None if is_done else rebalance.mend(
                decider, balancer,
                self._scheduler.placements(balancer.id, role))
            if move is None or not self._store.placements.place(
                    balancer.id, move.add, decided_on=move.decided_on,
                    role=role):
                continue
            host, = move.add
            decider.cluster.add(host, filters.services(balancer.document,
                                                       role))
            self._mended[role, balancer.id] = now
            begun.append((balancer.id, host))
        return begun

    def plan(self) -> _Steps:
        """Return the moves that would even out the load, see rebalance.plan.
        """
        balancers = {row.id: row for row in self._store.load_balancers.select()
                     if row.generation and not row.deleted}
        return [step for role in rows.ROLES
                for step in self._plan(role, balancers)]

    def _plan(self, role: rows.Role, balancers: dict[str, rows.LoadBalancer]
              ) -> _Steps:
        decider = self._scheduler.decider(
            self._store.placements.load(), clusters.conditions(
                self._store.nodes.conditions(role)), drain_s=0, role=role)
        placements: dict[str, list[rows.Placement]] = {}
        for row in self._store.placements.select():
            if row.removed_generation is None and row.role == role:
                placements.setdefault(row.load_balancer_id, []).append(row)
        return list(rebalance.plan(decider, balancers, placements))


def _holds(even: _Even | None, now_is: object, now: float) -> bool:
    """Return whether something that was as even as possible still is.

    :param even: the state in which it was, and until when that counts.
    """
    if even is None:
        return False
    state, until = even
    return bool(state == now_is) and now < until
