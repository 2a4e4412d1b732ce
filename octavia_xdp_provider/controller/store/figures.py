# SPDX-License-Identifier: Apache-2.0
"""Figures for whoever watches the controllers, in a few queries.

They cost what is counted by the database, and not a document is read.
"""

import dataclasses
import json
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from octavia_xdp_provider.common import ages
from octavia_xdp_provider.common import host_spec
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models


@dataclasses.dataclass(frozen=True)
class NodeFigures:
    """Of an LB node.

    ``silence_s``: seconds since it was heard; None: never. ``placements``: by
    state, a load balancer in the first that holds: leaving, failing,
    behind, draining, ok. ``lag``: generations that were drawn since the
    oldest one that it has not made true, it included; 0 if there is none.
    ``state``: what it last reported of itself.
    """

    host: str
    condition: str
    silence_s: float | None
    placements: dict[str, int]
    lag: int
    state: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class HypervisorFigures:
    """Of a hypervisor that is in service.

    ``silence_s``: as of NodeFigures. ``ports``: those with members, by state:
    ready, loading, failing.
    """

    host: str
    silence_s: float | None
    ports: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Figures:
    """``load_balancers``: by state, active, pending or deleting. ``marked``:
    items of the work queue; ``due``: those that could be worked on, and for
    how many seconds the oldest of them could: ``due_s``."""

    load_balancers: dict[str, int]
    marked: int
    due: int
    due_s: float
    generation: int
    nodes: list[NodeFigures]
    hypervisors: list[HypervisorFigures]


class Traffic(NamedTuple):
    """Sums of what nodes have counted. None ever falls but ``active``, the
    flows that were alive when they last reported; ``drops`` are packets."""

    bytes: int
    flows: int
    drops: int
    active: int


class Usage(NamedTuple):
    """What ``[limits]`` counts of a project, and of the largest of its load
    balancers; bytes in steps (``limits.in_steps``)."""

    project: str
    load_balancers: int
    members: int
    bytes: int
    largest_members: int
    largest_bytes: int


class FiguresQueries(base.Base):
    """Queries for figures."""

    def usage_of_projects(self) -> list[Usage]:
        """Of each project that has load balancers."""
        usage = models.Usage
        with self._reading_rows() as rows:
            return [Usage(row[0], *map(int, row[1:])) for row in rows.execute(
                sa.select(usage.project_id, sa.func.count(),
                          base.Total(usage.all_members),
                          base.Total(usage.bytes),
                          sa.func.max(usage.all_members),
                          sa.func.max(usage.bytes)).where(
                    usage.project_id.is_not(None)).group_by(
                        usage.project_id))]

    def traffic_of_nodes(self) -> dict[str, Traffic]:
        """Sums over the listeners of each node, by host."""
        return self._traffic(models.ListenerCounter.host)

    def traffic_of_load_balancers(self) -> dict[str, Traffic]:
        """Sums over the listeners and nodes of each, by id."""
        return self._traffic(models.ListenerCounter.load_balancer_id)

    def _traffic(self, column: Any) -> dict[str, Traffic]:
        counter = models.ListenerCounter
        with self._reading_rows() as rows:
            return {row[0]: Traffic(*map(int, row[1:])) for row
                    in rows.execute(sa.select(column, *map(base.Total, (
                        counter.total_bytes, counter.total_flows,
                        counter.total_drops, counter.active))).group_by(
                            column))}

    def figures(self) -> Figures:
        with self._read() as session:
            now = self._now(session)
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
                json.loads(state))
                for host, condition, last_seen, state in session.execute(
                    sa.select(models.Node.host, models.Node.condition,
                              models.Node.last_seen, models.Node.state))]
            return Figures(_load_balancers(session), marked, int(due),
                           ages.age(first, now) if due else 0.0, generation,
                           nodes, _hypervisors(session, now))


def _load_balancers(session: Any) -> dict[str, int]:
    balancer = models.LoadBalancer
    state = sa.case((balancer.deleted.is_(True), 'deleting'),
                    (balancer.pending.is_not(None), 'pending'),
                    else_='active')
    found = dict.fromkeys(('active', 'pending', 'deleting'), 0)
    found.update((name, int(number)) for name, number in session.execute(
        sa.select(state, sa.func.count()).group_by(state)))
    return found


def _placements(session: Any
                ) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Host → placements by state, and → the oldest generation that it has
    not made true."""
    balancer, placement = models.LoadBalancer, models.Placement
    # Of a load balancer that it has got lately it is only since then behind.
    wanted = sa.case(
        (placement.placed_generation > balancer.generation,
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


def _hypervisors(session: Any, now: float) -> list[HypervisorFigures]:
    one, host = models.HostObject, models.Hypervisor
    state = sa.case(
        (one.error.is_not(None), 'failing'),
        (one.held_generation < one.generation, 'loading'), else_='ready')
    ports: dict[str, dict[str, int]] = {}
    for name, found, number in session.execute(sa.select(
            one.host, state, sa.func.count()).where(
                one.kind == host_spec.PORT,
                one.removed_generation.is_(None)).group_by(one.host, state)):
        ports.setdefault(name, {})[found] = int(number)
    return [HypervisorFigures(name, ages.age(seen, now) if seen else None,
                              ports.get(name, {}))
            for name, seen in session.execute(sa.select(
                host.host, host.last_seen).where(host.in_service.is_(True)))]
