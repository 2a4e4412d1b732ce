# SPDX-License-Identifier: Apache-2.0
"""Rows of the database as the rest of the controller has them."""

import dataclasses
import json
from typing import Any

from octavia_xdp_provider.common import spec


@dataclasses.dataclass(frozen=True)
class LoadBalancer:
    """A load balancer; the columns are described in models.py.

    ``removed``: (kind, id, generation) of objects whose DELETED is still to
    be sent. ``changed_at``: seconds since the epoch.
    """

    id: str
    document: spec.Document
    generation: int
    sent_generation: int
    failed_generation: int
    removed: tuple[tuple[str, str, int], ...]
    deleted: bool
    changed_at: float


@dataclasses.dataclass(frozen=True)
class Node:
    """An LB node. ``last_seen``: seconds since the epoch."""

    host: str
    last_seen: float
    in_service: bool
    state: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Placement:
    """A load balancer on a node, or leaving it."""

    load_balancer_id: str
    host: str
    synced_generation: int
    error: str | None
    removed_generation: int | None


def document(row: Any) -> spec.Document:
    """The document, also if an older version of the controller wrote it."""
    return spec.complete(json.loads(row.document))


def load_balancer(row: Any) -> LoadBalancer:
    return LoadBalancer(
        row.id, document(row), row.generation, row.sent_generation,
        row.failed_generation,
        tuple((kind, key, generation)
              for kind, key, generation in json.loads(row.removed)),
        row.deleted, row.changed_at)


def node(row: Any) -> Node:
    return Node(row.host, row.last_seen, row.in_service,
                json.loads(row.state))


def placement(row: Any) -> Placement:
    return Placement(row.load_balancer_id, row.host, row.synced_generation,
                     row.error, row.removed_generation)
