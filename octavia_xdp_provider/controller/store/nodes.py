# SPDX-License-Identifier: Apache-2.0
"""LB nodes: who there is, and what all of them have counted."""

import functools
from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows


class Nodes(base.Base):
    """Queries about LB nodes."""

    def nodes(self) -> list[rows.Node]:
        with self._read() as session:
            return [rows.node(row) for row in session.query(models.Node)]

    @base.retried
    def set_in_service(self, host: str, in_service: bool,
                       draining: bool = False) -> bool:
        """The operator's word for a node. False where it is unknown.

        :param draining: of one out of service: routers shall prefer others
            at once, and not only when a VIP leaves.
        """
        with self._write() as session:
            row = session.get(models.Node, host)
            if row is None:
                return False
            row.in_service = in_service
            row.draining = draining
            return True

    @base.retried
    def heartbeat(self, *hosts: str) -> int:
        """Nodes are alive. Returns how many of them have reported already:
        what one can take is not known before."""
        with self._writing() as rows:
            return int(rows.execute(*self._timed(rows, _hearing, {
                'hosts': list(hosts)})).rowcount)

    def statistics(self, node_timeout: float) -> dict[str, rows.Statistics]:
        """By id of the listener, summed over all nodes that ever counted.

        Active flows only of those that have it and were heard lately.

        :param node_timeout: how long one may be silent, seconds.
        """
        counter, node, placement = (
            models.ListenerCounter, models.Node, models.Placement)
        with self._read() as session:
            since = self._clock(session) - node_timeout
            rows_of = session.query(
                counter.listener_id,
                base.Total(counter.total_bytes),
                base.Total(counter.total_flows),
                base.Total(counter.total_drops),
                base.Total(sa.case((sa.and_(
                    node.host.is_not(None), placement.host.is_not(None)),
                    counter.active), else_=0)),
                base.Total(counter.total_bytes_out),
            ).outerjoin(node, sa.and_(
                node.host == counter.host, node.last_seen >= since)
            ).outerjoin(placement, sa.and_(
                placement.host == counter.host,
                placement.load_balancer_id == counter.load_balancer_id)
            ).group_by(counter.listener_id)
            return {key: rows.Statistics(*map(int, sums))
                    for key, *sums in rows_of}


@functools.cache
def _hearing(dialect: str) -> Any:
    table = models.Node.__table__
    return sa.update(table).where(
        table.c.host.in_(sa.bindparam('hosts', expanding=True)),
        table.c.last_seen > 0).values(last_seen=base.clock(dialect))
