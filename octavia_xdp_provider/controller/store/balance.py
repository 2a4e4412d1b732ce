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


def _counts() -> Any:
    return sa.select(
        models.Placement.load_balancer_id,
        sa.func.count().label('number')).where(
            models.Placement.removed_generation.is_(None),
            models.Placement.withdrawn_since.is_(None)).group_by(
                models.Placement.load_balancer_id)
