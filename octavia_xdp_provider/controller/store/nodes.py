# SPDX-License-Identifier: Apache-2.0
"""LB nodes and proxy nodes: registration, heartbeats and conditions."""

from collections.abc import Iterable
import functools
import ipaddress
import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import zone as zones
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import leases
from octavia_xdp_provider.controller.store import marks
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import proxy_addresses
from octavia_xdp_provider.controller.store import rows


class Nodes(base.Queries):
    """Queries about LB nodes and proxy nodes."""

    def all(self) -> list[rows.Node]:
        with self._database.read() as session:
            return [rows.node(row) for row in session.query(models.Node)]

    def hosts(self) -> list[str]:
        with self._database.read_rows() as rows:
            return list(rows.execute(sa.select(models.Node.host)).scalars())

    @base.retried
    def register(self, host: str, nat_pools: Iterable[str] = (),
                 zone: str | None = None, *, role: rows.Role | None = None,
                 addresses: Iterable[str] = ()) -> bool:
        """Register a node, and return whether it is new.

        :param nat_pools: pools of a new node.
        :param zone: availability zone of a new node.
        :param role: None: that of the registered node, or rows.LB.
        :param addresses: of a new proxy node.
        :raises Refused: see set_nat_pools, set_zone and set_proxy_addresses;
            or the node has another role.
        """
        with self._database.write() as session:
            registered = session.get(models.Node, host)
            if registered is not None:
                _check_role(registered, role)
                return False
            row: Any = models.Node(host=host, last_seen=0, in_service=True,
                                   state='{}', zone=_checked_zone(zone),
                                   role=role or rows.LB)
            row.nat_pools = _checked(session, row, nat_pools)
            row.proxy_addresses = proxy_addresses.checked(
                session, row, addresses)
            session.add(row)
            return True

    @base.retried
    def set_proxy_addresses(self, host: str, addresses: Iterable[str]
                            ) -> bool:
        """Replace the addresses that LB nodes reach a proxy node at.

        :returns: False if the node is unknown.
        :raises Refused: an address is malformed or taken, there is none, or
            more than one of a family; or it is an LB node.
        """
        with self._database.write() as session:
            row = session.get(models.Node, host)
            if row is None:
                return False
            row.proxy_addresses = proxy_addresses.checked(
                session, row, addresses)
            marks.mark_selected(session, sa.select(
                models.Placement.load_balancer_id).where(
                    models.Placement.host == host))
            return True

    @base.retried
    def set_public_key(self, host: str, public_key: str | None) -> bool:
        """Set the key that secrets are sealed for; None: it gets none.

        :returns: False if the node is unknown.
        :raises Refused: it is an LB node.
        """
        with self._database.write() as session:
            row = session.get(models.Node, host)
            if row is None:
                return False
            if row.role != rows.PROXY:
                raise errors.Refused(
                    'public_key', f'{host} is an LB node, which gets no '
                    'secrets', 'register the key of a proxy node')
            row.public_key = public_key
            return True

    @base.retried
    def set_zone(self, host: str, zone: str | None) -> bool:
        """Set the availability zone that a node is in; None: no zone.

        :returns: False if the node is unknown.
        :raises Refused: the name of the zone is malformed.
        """
        with self._database.write() as session:
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
        :raises Refused: a network is malformed, or overlaps another node's;
            or it is a proxy node.
        """
        with self._database.write() as session:
            row = session.get(models.Node, host)
            if row is None:
                return False
            row.nat_pools = _checked(session, row, pools)
            return True

    @base.retried
    def remove(self, host: str) -> bool:
        """Remove a node, and return whether it was known."""
        with self._database.write() as session:
            marks.mark_selected(session, sa.select(
                models.Placement.load_balancer_id).where(
                    models.Placement.host == host))
            session.query(models.Placement).filter_by(host=host).delete()
            row = session.get(models.Node, host)
            if row is None:
                return False
            session.delete(row)
            return True

    @base.retried
    def set_in_service(self, host: str, in_service: bool,
                       draining: bool = False) -> bool:
        """Set a node in or out of service; return False if it is unknown.

        :param draining: whether a node out of service announces routes of last
            resort at once, and not only when a VIP leaves it.
        """
        with self._database.write() as session:
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
        with self._database.write() as session:
            nodes = session.query(models.Node).filter_by(zone=zone).order_by(
                models.Node.host).all()
            for row in nodes:
                row.in_service, row.draining = in_service, not in_service
            return [row.host for row in nodes]

    def zones(self) -> dict[str, str]:
        """Return host → the zone that it is registered in, '' for none."""
        with self._database.read_rows() as session:
            return dict(session.execute(sa.select(
                models.Node.host,
                sa.func.coalesce(models.Node.zone, ''))).tuples().all())

    @base.retried
    def heartbeat(self, *hosts: str) -> int:
        """Store heartbeats, and return how many of the nodes have reported
        before. Others are not counted, as their capacity is not known."""
        with self._database.write_rows() as rows:
            return int(rows.execute(*base.timed(rows, _hearing, {
                'hosts': list(hosts)})).rowcount)

    def conditions(self, role: rows.Role | None = None
                   ) -> dict[str, str | None]:
        """Return host → condition, None if the leader has not judged yet.

        :param role: None: of nodes of any role.
        """
        selected = sa.select(models.Node.host, models.Node.condition)
        if role is not None:
            selected = selected.where(models.Node.role == role)
        with self._database.read_rows() as session:
            return dict(session.execute(selected).tuples().all())

    def states(self, hosts: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return host → the node's latest report."""
        with self._database.read_rows() as session:
            return {host: json.loads(state) for host, state in session.execute(
                sa.select(models.Node.host, models.Node.state).where(
                    models.Node.host.in_(list(hosts))))}

    def heard(self) -> tuple[float, dict[str, tuple[float, bool, bool,
                                                    str | None]]]:
        """Return the time, and host → (last seen, in service, draining,
        condition), in the database's time."""
        with self._database.read_rows() as session:
            return base.now(session), {
                host: tuple(values) for host, *values in session.execute(
                    sa.select(models.Node.host, models.Node.last_seen,
                              models.Node.in_service, models.Node.draining,
                              models.Node.condition))}

    @base.retried
    def set_conditions(self, changed: dict[str, str], lease: str, token: int
                       ) -> None:
        """Store conditions, and mark all load balancers on these nodes.

        :param changed: host → new condition.
        :raises LeaseLost: another controller leads.
        """
        with self._database.write() as session:
            leases.check(session, lease, token)
            for host, condition in sorted(changed.items()):
                of_host = sa.update(models.Node).where(
                    models.Node.host == host)
                died_or_back = of_host.values(
                    died_or_back_at=base.now(session))
                session.execute(died_or_back if condition == 'dead' else
                                died_or_back.where(
                                    models.Node.condition == 'dead'))
                session.execute(of_host.values(condition=condition))
            marks.mark_selected(session, sa.select(
                models.Placement.load_balancer_id).where(
                    models.Placement.host.in_(sorted(changed))))


@functools.cache
def _hearing(dialect: str) -> Any:
    table = models.Node.__table__
    return sa.update(table).where(
        table.c.host.in_(sa.bindparam('hosts', expanding=True)),
        table.c.last_seen > 0).values(last_seen=base.clock(dialect))


def _checked_zone(zone: str | None) -> str | None:
    problem = None if zone is None else zones.name_problem(zone)
    if problem:
        raise errors.Refused('zone', *problem)
    return zone


def _check_role(row: Any, role: rows.Role | None) -> None:
    """:raises Refused: a registered node has another role."""
    if role not in (None, row.role):
        raise errors.Refused(
            'role', f'node {row.host} is registered with role {row.role}',
            f'delete it first ("node delete {row.host}"), or create a node '
            'with another name')


def _checked(session: orm.Session, node: Any, pools: Iterable[str]
             ) -> str | None:
    """Check that pools are not shared, and return them for the database."""
    pools = list(pools)
    if pools and node.role == rows.PROXY:
        raise errors.Refused(
            'nat_pools', f'{node.host} is a proxy node, and only LB nodes '
            'have pools for NAT', 'leave them out')
    for text in pools:
        problem = fields.network_problem(text)
        if problem:
            raise errors.Refused('nat_pools', *problem)
    taken = [(other.host, text) for other in session.query(
        models.Node.host, models.Node.nat_pools,
        models.Node.proxy_addresses).filter(models.Node.host != node.host)
        for text in (*rows.nat_pools(other), *rows.proxy_addresses(other))]
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
