# SPDX-License-Identifier: Apache-2.0
"""The operator's registration of LB nodes."""

from collections.abc import Iterable
import ipaddress
import json
from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import zone as zones
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows


class Registration(base.Base):
    """Queries about registered nodes."""

    def registered_hosts(self) -> list[str]:
        """Return the hosts of all nodes."""
        with self._reading_rows() as rows:
            return list(rows.execute(sa.select(models.Node.host)).scalars())

    @base.retried
    def register_node(self, host: str, nat_pools: Iterable[str] = (),
                      zone: str | None = None) -> bool:
        """Register a node, and return whether it is new.

        :param nat_pools: pools of a new node.
        :param zone: availability zone of a new node.
        :raises Refused: see set_nat_pools and set_zone.
        """
        with self._write() as session:
            if session.get(models.Node, host) is not None:
                return False
            session.add(models.Node(host=host, last_seen=0, in_service=True,
                                    state='{}', nat_pools=_checked(
                                        session, host, nat_pools),
                                    zone=_checked_zone(zone)))
            return True

    @base.retried
    def set_zone(self, host: str, zone: str | None) -> bool:
        """Set the availability zone that a node is in; None: no zone.

        :returns: False if the node is unknown.
        :raises Refused: the name of the zone is malformed.
        """
        with self._write() as session:
            row = session.get(models.Node, host)
            if row is None:
                return False
            row.zone = _checked_zone(zone)
            return True

    @base.retried
    def set_nat_pools(self, host: str, pools: Iterable[str]) -> bool:
        """Replace the addresses that a node may use for NAT.

        :param pools: networks in CIDR notation.
        :returns: False if the node is unknown.
        :raises Refused: a network is malformed, or overlaps another node's.
        """
        with self._write() as session:
            row = session.get(models.Node, host)
            if row is None:
                return False
            row.nat_pools = _checked(session, host, pools)
            return True

    @base.retried
    def remove_node(self, host: str) -> bool:
        """Remove a node, and return whether it was known."""
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


def _checked_zone(zone: str | None) -> str | None:
    problem = None if zone is None else zones.name_problem(zone)
    if problem:
        raise errors.Refused('zone', *problem)
    return zone


def _checked(session: Any, host: str, pools: Iterable[str]) -> str | None:
    """Check that pools are not shared, and return them for the database."""
    pools = list(pools)
    for text in pools:
        problem = fields.network_problem(text)
        if problem:
            raise errors.Refused('nat_pools', *problem)
    taken = [(other.host, pool) for other in session.query(
        models.Node.host, models.Node.nat_pools).filter(
            models.Node.host != host) for pool in rows.nat_pools(other)]
    for text in pools:
        network: Any = ipaddress.ip_network(text)
        for other, pool in taken:
            other_network: Any = ipaddress.ip_network(pool)
            if (network.version == other_network.version
                    and network.overlaps(other_network)):
                raise errors.Refused(
                    'nat_pools', f'{text} overlaps {pool} of {other}',
                    'give each address to one node')
    return json.dumps(pools) if pools else None
