# SPDX-License-Identifier: Apache-2.0
"""What nodes and controller say to each other (common/rpc.py)."""

from typing import Any
from typing import Literal

from typing_extensions import TypedDict

from octavia_xdp_provider.common import spec


class FetchAnswer(TypedDict):
    """What a node should have.

    ``as_of``: the newest generation there is. ``generations``: by id of the
    load balancer, of all that the node should have. ``documents``: by id,
    those that the node does not hold in this generation.
    """

    as_of: int
    generations: dict[str, int]
    documents: dict[str, spec.Document]


class Synced(TypedDict):
    """The generation of a load balancer that a node has looked at.

    ``error``: why it could not be made true, or null.
    """

    generation: int
    error: str | None


class Counters(TypedDict):
    """Of a listener on a node, since its service was made."""

    bytes: int
    flows: int


MemberState = Literal['up', 'down', 'unknown']


class Report(TypedDict):
    """What a node has.

    ``as_of``: of the fetch that the report is based on. By id of the load
    balancer: ``synced``; ``members``, the states of monitored ones by id;
    ``counters`` by id of the listener. ``state``: what the node reports of
    itself for the operator.
    """

    as_of: int
    synced: dict[str, Synced]
    members: dict[str, dict[str, MemberState]]
    counters: dict[str, dict[str, Counters]]
    state: dict[str, Any]


class ChangeAnswer(TypedDict, total=False):
    """What became of a change: one of these, texts but for the first."""

    generation: int | None
    refused: str
    conflict: str
    error: str
