# SPDX-License-Identifier: Apache-2.0
"""Database rows as objects for the rest of the controller."""

import dataclasses
import json
from typing import Any
from typing import Final
from typing import Literal
from typing import NamedTuple

from octavia_xdp_provider.api import nat
from octavia_xdp_provider.contracts import spec

Role = Literal['lb', 'proxy']
LB: Final = 'lb'
PROXY: Final = 'proxy'
ROLES: tuple[Role, ...] = (LB, PROXY)


class Statistics(NamedTuple):
    """Counts of a listener. ``drops``: packets. ``active``: live flows.
    ``bytes_out``: bytes to clients that passed nodes."""

    bytes: int
    flows: int
    drops: int = 0
    active: int = 0
    bytes_out: int = 0


class Wanted(NamedTuple):
    """``[placement]``: what holds for load balancers that set nothing."""

    replicas: int
    spread: str


def wanted(placement: Any) -> Wanted:
    """:param placement: the options of ``[placement]``."""
    return Wanted(placement.replicas, placement.spread)


@dataclasses.dataclass(frozen=True)
class LoadBalancer:
    """A load balancer; the columns are described in models.py.

    ``removed``, ``unconfirmed``: (kind, id, generation) of objects whose
    DELETED or ACTIVE is still to be sent. ``changed_at``: seconds since the
    epoch. ``sent_statuses``: (kind, id) → operating status.
    """

    id: str
    document: spec.Document
    generation: int
    sent_generation: int
    failed_generation: int
    removed: tuple[tuple[str, str, int], ...]
    deleted: bool
    changed_at: float
    pending: dict[str, Any] | None = None
    sent_statuses: dict[spec.Object, str] = dataclasses.field(
        default_factory=dict)
    unconfirmed: tuple[tuple[str, str, int], ...] = ()
    listed_at: str | None = None
    compared_at: str | None = None

    @property
    def to_be_compared(self) -> bool:
        """Whether Octavia's state may differ."""
        return self.listed_at is not None and self.compared_at is None


@dataclasses.dataclass(frozen=True)
class Node:
    """An LB node or a proxy node.

    ``last_seen``: seconds since the epoch. ``state``: its latest report, with
    only registered pools for NAT. ``draining``: out of service, with routes of
    last resort. The last four are as registered, ``proxy_addresses`` with at
    most one address of each family.
    """

    host: str
    last_seen: float
    in_service: bool
    state: dict[str, Any]
    condition: str | None = None
    draining: bool = False
    died_or_back_at: float | None = None
    zone: str | None = None
    role: Role = LB
    proxy_addresses: tuple[str, ...] = ()
    public_key: str | None = None


@dataclasses.dataclass(frozen=True)
class Placement:
    """A load balancer on a node, or leaving it; see models.py.

    ``members``: member id → "up", "down" or "unknown"; None if not reported.
    """

    load_balancer_id: str
    host: str
    synced_generation: int
    error: str | None
    removed_generation: int | None
    members: dict[str, str] | None = None
    announced: bool | None = None
    replace: bool = False
    draining_since: float | None = None
    drain_generation: int = 0
    withdrawn_since: float | None = None
    role: Role = LB


def document(row: Any) -> spec.Document:
    """Return a row's document, even if an older controller wrote it."""
    return parsed(row.document)


def parsed(text: str) -> spec.Document:
    return spec.complete(json.loads(text))


def load_balancer(row: Any) -> LoadBalancer:
    return LoadBalancer(
        row.id, document(row), row.generation, row.sent_generation,
        row.failed_generation,
        _objects(row.removed), row.deleted, row.changed_at,
        json.loads(row.pending) if row.pending else None,
        {(kind, key): status for (kind, _, key), status in (
            (text.partition(' '), status) for text, status
            in json.loads(row.sent_statuses or '{}').items())},
        _objects(row.unconfirmed or '[]'), row.listed_at, row.compared_at)


def _objects(text: str) -> tuple[tuple[str, str, int], ...]:
    return tuple((kind, key, generation)
                 for kind, key, generation in json.loads(text))


def node(row: Any) -> Node:
    return Node(row.host, row.last_seen, row.in_service,
                nat.registered(json.loads(row.state), nat_pools(row)),
                row.condition, row.draining, row.died_or_back_at, row.zone,
                row.role, tuple(proxy_addresses(row)), row.public_key)


def nat_pools(row: Any) -> list[str]:
    """Return a node's registered pools for NAT."""
    return list(json.loads(row.nat_pools or '[]'))


def proxy_addresses(row: Any) -> list[str]:
    """Return the registered addresses of a proxy node."""
    return list(json.loads(row.proxy_addresses or '[]'))


def placement(row: Any) -> Placement:
    return Placement(row.load_balancer_id, row.host, row.synced_generation,
                     row.error, row.removed_generation,
                     None if row.members is None else json.loads(row.members),
                     row.announced, bool(row.replace), row.draining_since,
                     row.drain_generation, row.withdrawn_since, row.role)
