# SPDX-License-Identifier: Apache-2.0
"""Reads all that a worker needs of one load balancer in one transaction."""

import dataclasses
import functools
import json
from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows

_BALANCERS = models.LoadBalancer.__table__
_PLACEMENTS = models.Placement.__table__
_NODES = models.Node.__table__


@dataclasses.dataclass(frozen=True)
class Situation:
    """A load balancer and its nodes at one moment.

    ``placements``: including those that are leaving. ``conditions``: host →
    condition, and ``states``: host → latest report, of the nodes of
    ``placements``. ``proxy_addresses``: host → registered addresses of the
    proxy nodes among these. ``now``: seconds since the epoch by the database's
    clock.
    """

    balancer: rows.LoadBalancer
    placements: tuple[rows.Placement, ...]
    conditions: dict[str, str | None]
    states: dict[str, dict[str, Any]]
    now: float
    proxy_addresses: dict[str, list[str]] = dataclasses.field(
        default_factory=dict)


class Situations(base.Queries):
    """Queries about one load balancer and its nodes."""

    def get(self, load_balancer_id: str) -> Situation | None:
        """Return the Situation of a load balancer, or None if it does not
        exist."""
        values = {'key': load_balancer_id}
        with self._database.read_rows() as opened:
            row = opened.execute(
                *base.timed(opened, _balancer, values)).first()
            if row is None:
                return None
            placements = opened.execute(_PLACED, values).all()
        nodes = [placed for placed in placements if placed.state is not None]
        return Situation(
            rows.load_balancer(row), tuple(map(rows.placement, placements)),
            {node.host: node.condition for node in nodes},
            {node.host: json.loads(node.state) for node in nodes},
            float(row.now),
            {node.host: rows.proxy_addresses(node) for node in nodes
             if node.role == rows.PROXY})


# Statements that are built once, see base.py.
_KEY: Any = sa.bindparam('key')


@functools.cache
def _balancer(dialect: str) -> Any:
    return sa.select(_BALANCERS, base.clock(dialect).label('now')).where(
        _BALANCERS.c.id == _KEY)


_PLACED = sa.select(
    _PLACEMENTS, _NODES.c.condition, _NODES.c.state,
    _NODES.c.proxy_addresses).join(
        _NODES, _NODES.c.host == _PLACEMENTS.c.host, isouter=True).where(
            _PLACEMENTS.c.load_balancer_id == _KEY)
