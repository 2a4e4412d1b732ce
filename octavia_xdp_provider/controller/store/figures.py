# SPDX-License-Identifier: Apache-2.0
"""Figures for the monitoring of controllers, from a few queries.

The database counts, and no documents are read.
"""

import dataclasses
import json
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.controller.store import tier_counters
from octavia_xdp_provider.process import ages


@dataclasses.dataclass(frozen=True)
class NodeFigures:
    """Figures of an LB node or a proxy node.

    ``silence_s``: seconds since its last sign of life; None: never.
    ``placements``: number by state, the first of these that applies: leaving,
    failing, behind, draining, ok. ``lag``: number of generations from the
    oldest one that it has not applied to the newest; 0 if there is none.
    ``state``: its latest report.
    """

    host: str
    condition: str
    silence_s: float | None
    placements: dict[str, int]
    lag: int
    state: dict[str, Any]
    role: str = rows.LB


@dataclasses.dataclass(frozen=True)
class HypervisorFigures:
    """Figures of a hypervisor in service.

    ``silence_s``: as in NodeFigures. ``ports``: number of ports with members
    by state: ready, loading, failing.
    """

    host: str
    silence_s: float | None
    ports: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Figures:
    """``load_balancers``: number by state: active, pending or deleting.
    ``marked``: items in the work queue; ``due``: those that are due;
    ``due_s``: seconds since the first of them was."""

    load_balancers: dict[str, int]
    marked: int
    due: int
    due_s: float
    generation: int
    nodes: list[NodeFigures]
    hypervisors: list[HypervisorFigures]


class Traffic(NamedTuple):
    """Sums of nodes' counters. None ever decreases but ``active``, the flows
    that were alive in the latest reports. ``drops``: packets."""

    bytes: int
    flows: int
    drops: int
    active: int


class Usage(NamedTuple):
    """A project's usage of ``[limits]``, and the largest usage of any of its
    load balancers; bytes in steps (``limits.in_steps``)."""

    project: str
    load_balancers: int
    members: int
    bytes: int
    largest_members: int
    largest_bytes: int


class FiguresQueries(base.Queries):
    """Queries for figures."""

    def statistics(self, node_timeout: float) -> dict[str, rows.Statistics]:
        """Return listener id → Statistics, summed over all nodes ever.

        Only nodes of the tier that serves a listener count. Sums of active
        flows only include nodes that have the load balancer and are not
        silent.

        :param node_timeout: seconds for which a node may be silent.
        """
        counter, node, placement = (
            models.ListenerCounter, models.Node, models.Placement)
        with self._database.read() as session:
            since = base.now_expression(session) - node_timeout
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
            ).filter(counter.counts.is_(True)).group_by(counter.listener_id)
            return {key: rows.Statistics(*map(int, sums))
                    for key, *sums in rows_of}

    def usage_of_projects(self) -> list[Usage]:
        """Return the usage of each project with load balancers."""
        usage = models.Usage
        with self._database.read_rows() as rows:
            return [Usage(row[0], *map(int, row[1:])) for row in rows.execute(
                sa.select(usage.project_id, sa.func.count(),
                          base.Total(usage.all_members),
                          base.Total(usage.bytes),
                          sa.func.max(usage.all_members),
                          sa.func.max(usage.bytes)).where(
                    usage.project_id.is_not(None)).group_by(
                        usage.project_id))]

    def traffic_of_nodes(self) -> dict[str, Traffic]:
        """Return sums over the listeners of each node, by host."""
        host = models.ListenerCounter.host
        return self._traffic(host, host != tier_counters.NO_NODE)

    def traffic_of_load_balancers(self) -> dict[str, Traffic]:
        """Return sums over listeners and the nodes that count for them, by
        load balancer id."""
        counter = models.ListenerCounter
        return self._traffic(counter.load_balancer_id,
                             counter.counts.is_(True))

    def _traffic(self, column: Any, included: Any) -> dict[str, Traffic]:
        counter = models.ListenerCounter
        with self._database.read_rows() as rows:
            return {row[0]: Traffic(*map(int, row[1:])) for row
                    in rows.execute(sa.select(column, *map(base.Total, (
                        counter.total_bytes, counter.total_flows,
                        counter.total_drops, counter.active))).where(
                            included).group_by(column))}

    def count(self) -> Figures:
        with self._database.read() as session:
            now = base.now(session)
            generation = int(session.get(models.Sequence, 1).value)
            placements, oldest = _placements(session)
            work = models.Work
            marked = int(session.scalar(sa.select(sa.func.count()).select_from(
                work)))
            due, first = session.execute(sa.select(
                sa.func.count(), sa.func.min(work.due_at)).where(
                    work.due_at <= now)).one()
            nodes = [NodeFigures(
                host, condition or 'unknown',
                ages.age(last_seen, now) if last_seen else None,
                placements.get(host, {}),
                generation - oldest[host] + 1 if host in oldest else 0,
                json.loads(state), role)
                for host, condition, last_seen, state, role in session.execute(
                    sa.select(models.Node.host, models.Node.condition,
                              models.Node.last_seen, models.Node.state,
                              models.Node.role))]
            return Figures(_load_balancers(session), marked, int(due),
                           ages.age(first, now) if due else 0.0, generation,
                           nodes, _hypervisors(session, now))


def _load_balancers(session: orm.Session) -> dict[str, int]:
    balancer = models.LoadBalancer
    state = sa.case((balancer.deleted.is_(True), 'deleting'),
                    (balancer.pending.is_not(None), 'pending'), else_='active')
    numbers = dict.fromkeys(('active', 'pending', 'deleting'), 0)
    numbers.update((name, int(number)) for name, number in session.execute(
        sa.select(state, sa.func.count()).group_by(state)))
    return numbers


def _placements(session: orm.Session
                ) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Return the number of placements by host and state, and the oldest
    generation that a host has not applied, by host."""
    balancer, placement = models.LoadBalancer, models.Placement
    # A node cannot have been behind before it got the load balancer.
    wanted = sa.case((placement.placed_generation > balancer.generation,
                      placement.placed_generation), else_=balancer.generation)
    state = sa.case(
        (placement.removed_generation.is_not(None), 'leaving'),
        (placement.error.is_not(None), 'failing'),
        (placement.synced_generation < balancer.generation, 'behind'),
        (placement.draining_since.is_not(None), 'draining'), else_='ok')
    counts: dict[str, dict[str, int]] = {}
    oldest: dict[str, int] = {}
    for host, name, number, first in session.execute(sa.select(
            placement.host, state, sa.func.count(), sa.func.min(wanted)).join(
                balancer, balancer.id == placement.load_balancer_id).where(
                    balancer.generation > 0).group_by(
                        placement.host, state)):
        counts.setdefault(host, {})[name] = int(number)
        if name == 'behind':
            oldest[host] = int(first)
    return counts, oldest


def _hypervisors(session: orm.Session, now: float) -> list[HypervisorFigures]:
    port, host = models.HostObject, models.Hypervisor
    state = sa.case(
        (port.error.is_not(None), 'failing'),
        (port.held_generation < port.generation, 'loading'), else_='ready')
    ports: dict[str, dict[str, int]] = {}
    for name, port_state, number in session.execute(sa.select(
            port.host, state, sa.func.count()).where(
                port.kind == host_spec.PORT,
                port.removed_generation.is_(None)).group_by(port.host, state)):
        ports.setdefault(name, {})[port_state] = int(number)
    return [HypervisorFigures(
        name, ages.age(last_seen, now) if last_seen else None,
        ports.get(name, {}))
            for name, last_seen in session.execute(sa.select(
                host.host, host.last_seen).where(host.in_service.is_(True)))]
