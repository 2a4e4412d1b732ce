# SPDX-License-Identifier: Apache-2.0
"""The conditions of nodes, as judged by the leader."""

from collections.abc import Iterable
import json
from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import leases
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows


class Conditions(leases.Leases):
    """Queries about the conditions of nodes."""

    def conditions(self) -> dict[str, str | None]:
        """Return host → condition, None if the leader has not judged yet."""
        with self._reading_rows() as session:
            return dict(session.execute(sa.select(
                models.Node.host, models.Node.condition)).tuples().all())

    def states(self, hosts: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return host → the node's latest report."""
        with self._reading_rows() as session:
            return {host: json.loads(state) for host, state
                    in session.execute(sa.select(
                        models.Node.host, models.Node.state).where(
                            models.Node.host.in_(list(hosts))))}

    def heard(self) -> tuple[float, dict[str, tuple[float, bool, bool,
                                                    str | None]]]:
        """Return the time, and host → (last seen, in service, draining,
        condition), in the database's time."""
        with self._reading_rows() as session:
            return self._now(session), {
                host: tuple(values) for host, *values in session.execute(
                    sa.select(models.Node.host, models.Node.last_seen,
                              models.Node.in_service, models.Node.draining,
                              models.Node.condition))}

    @base.retried
    def set_conditions(self, changed: dict[str, str], lease: str, token: int
                       ) -> None:
        """Store conditions, and mark all load balancers on these nodes.

        :param changed: host → new condition.
        :raises LeaseLost: another controller leads.
        """
        with self._write() as session:
            self._check_lease(session, lease, token)
            for host, condition in sorted(changed.items()):
                of_host = sa.update(models.Node).where(
                    models.Node.host == host)
                died_or_back = of_host.values(
                    died_or_back_at=self._now(session))
                session.execute(died_or_back if condition == 'dead' else
                                died_or_back.where(
                                    models.Node.condition == 'dead'))
                session.execute(of_host.values(condition=condition))
            self._mark_selected(session, sa.select(
                models.Placement.load_balancer_id).where(
                    models.Placement.host.in_(sorted(changed))))

    @base.retried
    def mark_short(self, wanted: rows.Wanted, live: int, zones: int,
                   limit: int) -> int:
        """Mark load balancers on fewer nodes than they could be.

        :param live: number of live nodes.
        :param zones: number of zones with live nodes.
        :param limit: maximum number of load balancers to mark.
        :returns: the number of marked ones.
        """
        with self._write() as session:
            ids = session.scalars(_short(wanted, live, zones).limit(
                limit)).all()
            self._mark_work(session, ids)
            return len(ids)


def _short(wanted: rows.Wanted, live: int, zones: int) -> Any:
    """Select ids of load balancers on fewer working nodes than possible."""
    balancer, placement, node = (models.LoadBalancer, models.Placement,
                                 models.Node)
    working = sa.select(
        placement.load_balancer_id, sa.func.count().label('number')).join(
            node, node.host == placement.host).where(
                placement.removed_generation.is_(None),
                placement.error.is_(None),
                sa.func.coalesce(node.condition, '').not_in(
                    ('dead', 'disabled', 'draining'))).group_by(
                        placement.load_balancer_id).subquery()
    number = sa.func.coalesce(working.c.number, 0)
    return sa.select(balancer.id).outerjoin(
        working, working.c.load_balancer_id == balancer.id).where(
            balancer.deleted.is_(False), balancer.generation > 0,
            number < sa.case(
                (sa.func.coalesce(balancer.spread, wanted.spread) == 'require',
                 zones), else_=live),
            number < sa.func.coalesce(
                balancer.replicas, wanted.replicas)).order_by(
                    number, balancer.id)
