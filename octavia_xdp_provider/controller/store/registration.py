# SPDX-License-Identifier: Apache-2.0
"""Which LB nodes there are: the operator says so."""

import sqlalchemy as sa

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models


class Registration(base.Base):
    """Queries about the existence of nodes."""

    def registered_hosts(self) -> list[str]:
        """Hosts of all nodes."""
        with self._reading_rows() as rows:
            return list(rows.execute(sa.select(models.Node.host)).scalars())

    @base.retried
    def register_node(self, host: str) -> bool:
        """Make a node known. Returns whether it was not before."""
        with self._write() as session:
            if session.get(models.Node, host) is not None:
                return False
            session.add(models.Node(host=host, last_seen=0,
                                    in_service=True, state='{}'))
            return True

    @base.retried
    def remove_node(self, host: str) -> bool:
        """Forget a node that will never come back."""
        with self._write() as session:
            self._mark_selected(session, sa.select(
                models.Placement.load_balancer_id).where(
                    models.Placement.host == host))
            session.query(models.Placement).filter_by(host=host).delete()
            row = session.get(models.Node, host)
            if row is None:
                return False
            session.delete(row)
            return True
