# SPDX-License-Identifier: Apache-2.0
"""All that a worker has to know of one load balancer, in one transaction."""

from collections.abc import Iterable
import dataclasses
import json
from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows


@dataclasses.dataclass(frozen=True)
class Situation:
    """A load balancer and its nodes, as of one moment.

    ``placements``: also those that are leaving. ``conditions``: host → what
    the leader thinks of it, of all nodes. ``states``: host → what it last
    reported of itself, of the nodes of ``placements``.
    """

    balancer: rows.LoadBalancer
    placements: tuple[rows.Placement, ...]
    conditions: dict[str, str | None]
    states: dict[str, dict[str, Any]]


class Situations(base.Base):
    """Queries about one load balancer and its nodes."""

    def hosts_of(self, load_balancer_id: str, conditions: Iterable[str]
                 ) -> set[str]:
        """Nodes that have it, or should, and are in one of the conditions.
        """
        with self._read() as session:
            return set(session.scalars(sa.select(models.Node.host).join(
                models.Placement, models.Placement.host == models.Node.host
            ).where(models.Placement.load_balancer_id == load_balancer_id,
                    models.Node.condition.in_(list(conditions)))))

    def situation(self, load_balancer_id: str) -> Situation | None:
        """None: it is not there."""
        with self._read() as session:
            row = session.get(models.LoadBalancer, load_balancer_id)
            if row is None:
                return None
            placements = tuple(rows.placement(one) for one in session.query(
                models.Placement).filter_by(
                    load_balancer_id=load_balancer_id))
            conditions = dict(session.execute(sa.select(
                models.Node.host, models.Node.condition)).all())
            states = dict(session.execute(sa.select(
                models.Node.host, models.Node.state).where(
                    models.Node.host.in_(
                        [one.host for one in placements]))).all())
            balancer = rows.load_balancer(row)
        return Situation(balancer, placements, conditions, {
            host: json.loads(state) for host, state in states.items()})
