# SPDX-License-Identifier: Apache-2.0
"""LB nodes and the sums of their counters."""

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
        """Set a node in or out of service; return False if it is unknown.

        :param draining: whether a node out of service announces routes of last
            resort at once, and not only when a VIP leaves it.
        """
        with self._write() as session:
            row = session.get(models.Node, host)
            if row is None:
                return False
            row.in_service = in_service
            row.draining = draining
            return True

    @base.retried
    def set_zone_in_service(self, zone: str, in_service: bool) -> list[str]:
        """Drain the nodes of a zone out of service, or set them in service.

        :returns: the nodes; none if the zone is unknown.
        """
        with self._write() as session:
            nodes = session.query(models.Node).filter_by(zone=zone).order_by(
                models.Node.host).all()
            for row in nodes:
                row.in_service, row.draining = in_service, not in_service
            return [row.host for row in nodes]

    def zones(self) -> dict[str, str]:
        """Return host → the zone that it is registered in, '' for none."""
        with self._reading_rows() as session:
            return dict(session.execute(sa.select(
                models.Node.host,
                sa.func.coalesce(models.Node.zone, ''))).tuples().all())

    @base.retried
    def heartbeat(self, *hosts: str) -> int:
        """Store heartbeats, and return how many of the nodes have reported
        before. Others are not counted, as their capacity is not known."""
        with self._writing() as rows:
            return int(rows.execute(*self._timed(rows, _hearing, {
                'hosts': list(hosts)})).rowcount)

    def statistics(self, node_timeout: float) -> dict[str, rows.Statistics]:
        """Return listener id → Statistics, summed over all nodes ever.

        Sums of active flows only include nodes that have the load balancer and
        are not silent.

        :param node_timeout: seconds for which a node may be silent.
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
