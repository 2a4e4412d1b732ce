# SPDX-License-Identifier: Apache-2.0
"""Queries of the scheduler for evening out the load."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import marks
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows


class Balance(base.Queries):
    """Queries about the distribution of load balancers over nodes."""

    def moves_under_way(self, replicas: int) -> int:
        """Return how often a load balancer is on more nodes of a role than
        wanted, which are moves under way. Nodes that only keep NAT flows do
        not count, nor do proxy nodes of one that no longer needs any.

        :param replicas: nodes wanted if the flavor sets no number.
        """
        counts = _counts().subquery()
        with self._database.read_rows() as session:
            return int(session.scalar(sa.select(sa.func.count()).select_from(
                models.LoadBalancer).join(
                    counts, counts.c.load_balancer_id
                    == models.LoadBalancer.id).where(
                        models.LoadBalancer.deleted.is_(False),
                        (counts.c.role == rows.LB)
                        | models.LoadBalancer.needs_proxies.is_(True),
                        counts.c.number > sa.func.coalesce(
                            models.LoadBalancer.replicas, replicas))))

    def movable(self, source: str, target: str, replicas: int, limit: int,
                role: rows.Role = rows.LB) -> list[rows.LoadBalancer]:
        """Return load balancers that could be moved from a node to another.

        They are on as many nodes as wanted, all of which have applied them,
        and not on the target.

        :param limit: maximum number of results.
        :param role: of both nodes; placements on others are not looked at.
        """
        balancer, placement = models.LoadBalancer, models.Placement
        on_target = sa.select(placement.load_balancer_id).where(
            placement.host == target)
        aliased = orm.aliased(models.Placement)
        is_placed = (aliased.load_balancer_id == balancer.id,
                     aliased.role == role,
                     aliased.removed_generation.is_(None))
        not_done = sa.select(aliased.host).where(
            *is_placed, aliased.error.is_not(None)
            | (aliased.synced_generation < balancer.generation)
        ).correlate(balancer).exists()
        number = sa.select(sa.func.count(aliased.host)).where(
            *is_placed).correlate(balancer).scalar_subquery()
        with self._database.read() as session:
            return [rows.load_balancer(row) for row in session.scalars(
                sa.select(balancer).join(
                    placement, placement.load_balancer_id
                    == balancer.id).where(
                        placement.host == source,
                        placement.removed_generation.is_(None),
                        balancer.deleted.is_(False),
                        balancer.id.not_in(on_target), ~not_done,
                        number == sa.func.coalesce(balancer.replicas,
                                                   replicas))
                .order_by(balancer.id).limit(limit))]

    def uneven(self, wanted: rows.Wanted, zones: int, after: str, limit: int,
               role: rows.Role = rows.LB) -> list[rows.LoadBalancer]:
        """Return load balancers whose nodes could be in more zones.

        They are on as many nodes as wanted, all of which have applied them. A
        zone may have no node that can take them.

        :param zones: number of zones with live nodes.
        :param after: return only load balancers with greater ids.
        :param limit: maximum number of results.
        :param role: of the nodes that are looked at.
        """
        balancer, placement = models.LoadBalancer, models.Placement
        in_zones = sa.select(
            placement.load_balancer_id, _ZONE.label('zone'),
            sa.func.count().label('number')).join(
                models.Node, models.Node.host == placement.host).where(
                    placement.role == role,
                    placement.removed_generation.is_(None)).group_by(
                        placement.load_balancer_id, _ZONE).subquery()
        most = sa.func.max(in_zones.c.number)
        spread = sa.select(
            in_zones.c.load_balancer_id,
            sa.func.sum(in_zones.c.number).label('number')).group_by(
                in_zones.c.load_balancer_id).having(
                    most >= 2, (sa.func.count() < zones)
                    | (most - sa.func.min(in_zones.c.number) >= 2)).subquery()
        not_done = sa.select(placement.host).where(
            placement.load_balancer_id == balancer.id, placement.role == role,
            # Dead nodes never confirm that they have removed it.
            placement.removed_generation.is_(None),
            placement.error.is_not(None)
            | placement.draining_since.is_not(None)
            | (placement.synced_generation < balancer.generation)
        ).correlate(balancer).exists()
        with self._database.read() as session:
            return [rows.load_balancer(row) for row in session.scalars(
                sa.select(balancer).join(
                    spread, spread.c.load_balancer_id == balancer.id).where(
                        balancer.deleted.is_(False), balancer.id > after,
                        *_if_needed(role), spread.c.number == sa.func.coalesce(
                            balancer.replicas, wanted.replicas),
                        _spread(wanted) != 'off', ~not_done)
                .order_by(balancer.id).limit(limit))]

    def in_one_zone(self, wanted: rows.Wanted) -> dict[str, int]:
        """Return zone → number of load balancers that would fail with it.

        These want several nodes and zones, and all nodes of a role that work
        for them are in one. '' stands for nodes without a zone. Empty if all
        nodes are in one zone.
        """
        balancer, placement, node = (models.LoadBalancer, models.Placement,
                                     models.Node)
        working = sa.select(
            placement.load_balancer_id, placement.role,
            sa.func.min(_ZONE).label('zone')).join(
                node, node.host == placement.host).where(
                    placement.removed_generation.is_(None),
                    placement.error.is_(None),
                    sa.func.coalesce(node.condition, '').not_in(
                        ('dead', 'disabled', 'draining'))).group_by(
                            placement.load_balancer_id, placement.role
                        ).having(sa.func.count(_ZONE.distinct()) == 1
                                 ).subquery()
        with self._database.read_rows() as session:
            numbers = dict.fromkeys(session.execute(
                sa.select(_ZONE).distinct()).scalars(), 0)
            if len(numbers) < 2:
                return {}
            for zone, number in session.execute(sa.select(
                    working.c.zone,
                    sa.func.count(balancer.id.distinct())).join(
                        balancer, balancer.id == working.c.load_balancer_id
                    ).where(balancer.deleted.is_(False),
                            (working.c.role == rows.LB)
                            | balancer.needs_proxies.is_(True),
                            sa.func.coalesce(balancer.replicas,
                                             wanted.replicas) > 1,
                            _spread(wanted) != 'off').group_by(
                                working.c.zone)):
                numbers[zone] = int(number)
            return numbers

    @base.retried
    def mark_short(self, wanted: rows.Wanted, live: int, zones: int,
                   limit: int, role: rows.Role = rows.LB) -> int:
        """Mark load balancers on fewer nodes of a role than they could be.

        :param live: number of live nodes.
        :param zones: number of zones with live nodes.
        :param limit: maximum number of load balancers to mark.
        :returns: the number of marked ones.
        """
        with self._database.write() as session:
            ids = session.scalars(_short(wanted, live, zones, role).limit(
                limit)).all()
            marks.mark(session, ids)
            return len(ids)


# Nodes without a zone are in one common zone. No parameter: PostgreSQL would
# not know that the one of GROUP BY is the same.
_ZONE = sa.func.coalesce(models.Node.zone, sa.literal_column("''"))


def _spread(wanted: rows.Wanted) -> Any:
    return sa.func.coalesce(models.LoadBalancer.spread, wanted.spread)


def _if_needed(role: rows.Role) -> tuple[Any, ...]:
    """Return conditions that a load balancer needs nodes of a role."""
    return () if role == rows.LB else (
        models.LoadBalancer.needs_proxies.is_(True),)


def _counts() -> Any:
    return sa.select(
        models.Placement.load_balancer_id, models.Placement.role,
        sa.func.count().label('number')).where(
            models.Placement.removed_generation.is_(None),
            models.Placement.withdrawn_since.is_(None)).group_by(
                models.Placement.load_balancer_id, models.Placement.role)


def _short(wanted: rows.Wanted, live: int, zones: int, role: rows.Role
           ) -> Any:
    """Select ids of load balancers on fewer working nodes than possible."""
    balancer, placement, node = (models.LoadBalancer, models.Placement,
                                 models.Node)
    working = sa.select(
        placement.load_balancer_id, sa.func.count().label('number')).join(
            node, node.host == placement.host).where(
                placement.role == role,
                placement.removed_generation.is_(None),
                placement.error.is_(None),
                sa.func.coalesce(node.condition, '').not_in(
                    ('dead', 'disabled', 'draining'))).group_by(
                        placement.load_balancer_id).subquery()
    number = sa.func.coalesce(working.c.number, 0)
    return sa.select(balancer.id).outerjoin(
        working, working.c.load_balancer_id == balancer.id).where(
            balancer.deleted.is_(False), balancer.generation > 0,
            *_if_needed(role), number < sa.case(
                (_spread(wanted) == 'require', zones), else_=live),
            number < sa.func.coalesce(
                balancer.replicas, wanted.replicas)).order_by(
                    number, balancer.id)
