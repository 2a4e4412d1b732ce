# SPDX-License-Identifier: Apache-2.0
"""LB nodes: who there is, and what all of them have counted."""

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
    def heartbeat(self, host: str) -> bool:
        """A node is alive. False where it has not reported yet: what it can
        take is not known before."""
        table = models.Node.__table__
        with self._write() as session:
            return bool(session.execute(sa.update(table).where(
                table.c.host == host, table.c.last_seen > 0).values(
                    last_seen=self._clock(session))).rowcount)

    def statistics(self) -> dict[str, tuple[int, int]]:
        """Listener id → (bytes, flows), summed over all nodes."""
        with self._read() as session:
            return {key: (int(size), int(flows))
                    for key, size, flows in session.query(
                        models.ListenerCounter.listener_id,
                        sa.func.sum(models.ListenerCounter.total_bytes),
                        sa.func.sum(models.ListenerCounter.total_flows),
                    ).group_by(models.ListenerCounter.listener_id)}
