# SPDX-License-Identifier: Apache-2.0
"""The placements of load balancers on nodes, and the budget of removals."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import marks
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows


class Placements(base.Queries):
    """Queries about placements."""

    def select(self, ids: Iterable[str] | None = None) -> list[rows.Placement]:
        """Return all placements, or those of some load balancers."""
        with self._database.read() as session:
            query = session.query(models.Placement)
            if ids is not None:
                query = query.filter(
                    models.Placement.load_balancer_id.in_(list(ids)))
            return [rows.placement(row) for row in query]

    def remaining(self, host: str, is_dead: bool = False) -> list[str]:
        """Return ids of load balancers that a node has or has yet to remove.

        :param is_dead: leave out those that it has yet to remove.
        """
        placement = models.Placement
        with self._database.read() as session:
            query = session.query(placement.load_balancer_id).filter_by(
                host=host).order_by(placement.load_balancer_id)
            if is_dead:
                query = query.filter(placement.removed_generation.is_(None))
            return [key for key, in query]

    def shared_with(self, host: str) -> list[tuple[str, str, int]]:
        """Return (load balancer, node, newest generation) of all working
        placements of the load balancers on a host, including its own."""
        placement, balancer = models.Placement, models.LoadBalancer
        with self._database.read() as session:
            return [(key, where, generation) for key, where, generation
                    in session.query(
                        placement.load_balancer_id, placement.host,
                        balancer.generation).join(
                            balancer,
                            balancer.id == placement.load_balancer_id)
                    .filter(placement.removed_generation.is_(None),
                            placement.error.is_(None),
                            placement.load_balancer_id.in_(
                                sa.select(models.Placement.load_balancer_id)
                                .where(models.Placement.host == host)))]

    def drains(self, hosts: Iterable[str]) -> bool:
        """Return whether a load balancer drains on one of these nodes, or has
        drained and has yet to leave."""
        with self._database.read_rows() as session:
            return session.execute(_DRAINING, {
                'hosts': list(hosts)}).first() is not None

    def active_flows(self, load_balancer_id: str) -> dict[str, int]:
        """Return host → number of a load balancer's live flows in the host's
        latest report."""
        counter = models.ListenerCounter
        with self._database.read() as session:
            return {host: int(flows) for host, flows in session.query(
                counter.host, base.Total(counter.active)).filter(
                    counter.load_balancer_id == load_balancer_id).group_by(
                        counter.host) if flows}

    def load(self) -> dict[str, int]:
        """Return host → number of load balancers that are not leaving it."""
        with self._database.read_rows() as session:
            counted = session.execute(sa.select(
                models.Placement.host, sa.func.count()).where(
                    models.Placement.removed_generation.is_(None)).group_by(
                        models.Placement.host))
            return dict(counted.tuples().all())

    @base.retried
    def place(self, load_balancer_id: str, add: Iterable[str] = (),
              remove: Iterable[str] = (), *, drain: Iterable[str] = (),
              withdraw: Iterable[str] = (), restore: Iterable[str] = (),
              replace: Iterable[str] = (),
              decided_on: frozenset[str] | None = None, failed: int = 0,
              budget: tuple[int, float] | None = None,
              role: rows.Role = rows.LB) -> bool:
        """Add a load balancer to nodes and remove it from others.

        :param drain: hosts that are to announce it as a last resort.
        :param withdraw: hosts that are to withdraw it and keep NAT flows.
        :param restore: hosts that are to announce it normally again.
        :param replace: hosts that it leaves once another host has it.
        :param decided_on: the hosts of the role that it was on when this was
            decided, or None to ignore them. If it is on others now, or
            deleted, nothing is done and False returned.
        :param failed: number of the removals that count for the budget, see
            removals_since().
        :param budget: (number, seconds) that are allowed; if there would be
            more, nothing is done and False returned.
        """
        with self._database.write() as session:
            # The lock on the sequence is held from here to the commit.
            generation = base.next_generation(session)
            if decided_on is not None and not _is_on(
                    session, load_balancer_id, decided_on, role):
                return False
            if failed and not _count_removals(session, failed, budget):
                return False
            _add(session, load_balancer_id, add, generation)
            for hosts, values in (
                    (remove, {'removed_generation': generation}),
                    (drain, {'draining_since': base.now(session),
                             'withdrawn_since': None,
                             'drain_generation': generation}),
                    (withdraw, {'withdrawn_since': base.now(session),
                                'draining_since': sa.func.coalesce(
                                    models.Placement.draining_since,
                                    base.now(session)),
                                'drain_generation': generation}),
                    (restore, {'draining_since': None,
                               'withdrawn_since': None,
                               'drain_generation': generation}),
                    (replace, {'replace': True})):
                if hosts:
                    session.query(models.Placement).filter(
                        models.Placement.load_balancer_id == load_balancer_id,
                        models.Placement.host.in_(sorted(hosts))).update(
                            values)
            return True

    @base.retried
    def keep(self, load_balancer_id: str) -> None:
        """End a failover: nodes that were not replaced yet keep it.

        Nodes that it is leaving already do not.
        """
        with self._database.write() as session:
            session.query(models.Placement).filter_by(
                load_balancer_id=load_balancer_id, replace=True,
                draining_since=None).update({'replace': None})
            marks.mark(session, [load_balancer_id])

    def removals_since(self, span_s: float) -> int:
        """Return the number of removals from failed nodes within a span, minus
        those that the operator has allowed beyond the budget."""
        with self._database.read() as session:
            return _removals(session, span_s)

    @base.retried
    def allow_removals(self, number: int, span_s: float) -> None:
        """Allow a number of removals beyond the budget."""
        with self._database.write() as session:
            _forget_removals(session, span_s)
            session.add(models.Removal(at=base.now(session), number=-number))
            marks.mark_selected(session, _on_failed_nodes(
                models.Placement.load_balancer_id))

    def on_failed_nodes(self, zone: str | None = None) -> int:
        """Return the number of placements on dead or failing nodes.

        :param zone: count only those on nodes of this zone.
        """
        counted = _on_failed_nodes(sa.func.count())
        with self._database.read() as session:
            return int(session.scalar(
                counted if zone is None
                else counted.where(models.Node.zone == zone)))


def _count_removals(session: orm.Session, number: int,
                    budget: tuple[int, float] | None) -> bool:
    """Count removals; return False if the budget does not allow them."""
    if budget:
        if number > budget[0] - _removals(session, budget[1]):
            return False
        _forget_removals(session, budget[1])
    session.add(models.Removal(at=base.now(session), number=number))
    return True


def _forget_removals(session: orm.Session, span_s: float) -> None:
    """Delete removals outside the span, or in the future, which precede a
    clock that was set back."""
    at, now = models.Removal.at, base.now(session)
    session.query(models.Removal).filter(
        (at <= now - span_s) | (at > now)).delete()


def _add(session: orm.Session, load_balancer_id: str, hosts: Iterable[str],
         generation: int) -> None:
    hosts = list(hosts)
    roles = dict(session.query(models.Node.host, models.Node.role).filter(
        models.Node.host.in_(hosts)).tuples().all())
    for host in hosts:
        session.merge(models.Placement(
            load_balancer_id=load_balancer_id, host=host,
            role=roles.get(host, rows.LB), synced_generation=0, error=None,
            replace=None, removed_generation=None, members=None,
            announced=None, placed_generation=generation,
            draining_since=None, withdrawn_since=None, drain_generation=0))
    if hosts:
        # Give the nodes time to apply it.
        session.query(models.LoadBalancer).filter_by(
            id=load_balancer_id).update({'changed_at': base.now(session)})


def _is_on(session: orm.Session, load_balancer_id: str, hosts: frozenset[str],
           role: rows.Role) -> bool:
    row = session.get(models.LoadBalancer, load_balancer_id)
    placed = session.query(models.Placement.host).filter_by(
        load_balancer_id=load_balancer_id, removed_generation=None,
        role=role)
    return (row is not None and not row.deleted
            and {host for host, in placed} == hosts)


def _removals(session: orm.Session, span_s: float) -> int:
    now = base.now(session)
    return int(session.scalar(sa.select(
        sa.func.sum(models.Removal.number)).where(
            models.Removal.at > now - span_s, models.Removal.at <= now)) or 0)


def _on_failed_nodes(column: Any) -> Any:
    """Select placements whose node is dead, failing or unknown."""
    return sa.select(column).select_from(models.Placement).outerjoin(
        models.Node, models.Node.host == models.Placement.host).where(
            models.Placement.removed_generation.is_(None),
            models.Node.host.is_(None) | (models.Node.condition == 'dead')
            | models.Placement.error.is_not(None))


# A statement that is built once, see base.py.
_DRAINING = sa.select(models.Placement.host).where(
    models.Placement.host.in_(sa.bindparam('hosts', expanding=True)),
    models.Placement.draining_since.is_not(None)).limit(1)
