# SPDX-License-Identifier: Apache-2.0
"""Queries of the scheduler for evening out the load."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows


class Balance(base.Base):
    """Queries about the distribution of load balancers over nodes."""

    def under_way(self, replicas: int) -> int:
        """Return the number of load balancers on more nodes than wanted, which
        are moves under way. Nodes that only keep NAT flows do not count.

        :param replicas: nodes wanted if the flavor sets no number.
        """
        counts = _counts().subquery()
        with self._reading_rows() as session:
            return int(session.scalar(sa.select(sa.func.count()).select_from(
                models.LoadBalancer).join(
                    counts, counts.c.load_balancer_id
                    == models.LoadBalancer.id).where(
                        models.LoadBalancer.deleted.is_(False),
                        counts.c.number > sa.func.coalesce(
                            models.LoadBalancer.replicas, replicas))))

    def movable(self, source: str, target: str, replicas: int, limit: int
                ) -> list[rows.LoadBalancer]:
        """Return load balancers that could be moved from a node to another.

        They are on as many nodes as wanted, all of which have applied them,
        and not on the target.

        :param limit: maximum number of results.
        """
        balancer, placement = models.LoadBalancer, models.Placement
        on_target = sa.select(placement.load_balancer_id).where(
            placement.host == target)
        mine = orm.aliased(models.Placement)
        is_mine = (mine.load_balancer_id == balancer.id,
                   mine.removed_generation.is_(None))
        not_done = sa.select(mine.host).where(
            *is_mine, mine.error.is_not(None)
            | (mine.synced_generation < balancer.generation)
        ).correlate(balancer).exists()
        number = sa.select(sa.func.count(mine.host)).where(
            *is_mine).correlate(balancer).scalar_subquery()
        with self._read() as session:
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


    def uneven(self, wanted: rows.Wanted, zones: int, after: str, limit: int
               ) -> list[rows.LoadBalancer]:
        """Return load balancers whose nodes could be in more zones.

        They are on as many nodes as wanted, all of which have applied them. A
        zone may have no node that can take them.

        :param zones: number of zones with live nodes.
        :param after: return only load balancers with greater ids.
        :param limit: maximum number of results.
        """
        balancer, placement = models.LoadBalancer, models.Placement
        in_zones = sa.select(
            placement.load_balancer_id, _ZONE.label('zone'),
            sa.func.count().label('number')).join(
                models.Node, models.Node.host == placement.host).where(
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
            placement.load_balancer_id == balancer.id,
            # Dead nodes never confirm that they have removed it.
            placement.removed_generation.is_(None),
            placement.error.is_not(None)
            | placement.draining_since.is_not(None)
            | (placement.synced_generation < balancer.generation)
        ).correlate(balancer).exists()
        with self._read() as session:
            return [rows.load_balancer(row) for row in session.scalars(
                sa.select(balancer).join(
                    spread, spread.c.load_balancer_id == balancer.id).where(
                        balancer.deleted.is_(False), balancer.id > after,
                        spread.c.number == sa.func.coalesce(
                            balancer.replicas, wanted.replicas),
                        _spread(wanted) != 'off', ~not_done)
                .order_by(balancer.id).limit(limit))]

    def in_one_zone(self, wanted: rows.Wanted) -> dict[str, int]:
        """Return zone → number of load balancers that would fail with it.

        These want several nodes and zones, and all nodes that work for them
        are in one. '' stands for nodes without a zone. Empty if all nodes are
        in one zone.
        """
        balancer, placement, node = (models.LoadBalancer, models.Placement,
                                     models.Node)
        working = sa.select(
            placement.load_balancer_id, sa.func.min(_ZONE).label('zone')).join(
                node, node.host == placement.host).where(
                    placement.removed_generation.is_(None),
                    placement.error.is_(None),
                    sa.func.coalesce(node.condition, '').not_in(
                        ('dead', 'disabled', 'draining'))).group_by(
                            placement.load_balancer_id).having(
                                sa.func.count(_ZONE.distinct()) == 1
                            ).subquery()
        with self._reading_rows() as session:
            numbers = dict.fromkeys(session.execute(
                sa.select(_ZONE).distinct()).scalars(), 0)
            if len(numbers) < 2:
                return {}
            for zone, number in session.execute(sa.select(
                    working.c.zone, sa.func.count()).join(
                        balancer, balancer.id == working.c.load_balancer_id
                    ).where(balancer.deleted.is_(False),
                            sa.func.coalesce(balancer.replicas,
                                             wanted.replicas) > 1,
                            _spread(wanted) != 'off').group_by(
                                working.c.zone)):
                numbers[zone] = int(number)
            return numbers


# Nodes without a zone are in one common zone.
_ZONE = sa.func.coalesce(models.Node.zone, '')


def _spread(wanted: rows.Wanted) -> Any:
    return sa.func.coalesce(models.LoadBalancer.spread, wanted.spread)


def _counts() -> Any:
    return sa.select(
        models.Placement.load_balancer_id,
        sa.func.count().label('number')).where(
            models.Placement.removed_generation.is_(None),
            models.Placement.withdrawn_since.is_(None)).group_by(
                models.Placement.load_balancer_id)
