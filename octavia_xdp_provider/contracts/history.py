# SPDX-License-Identifier: Apache-2.0
"""Which members of a pool took new flows earlier.

LB nodes report this history, and controllers send it to nodes without state
(contracts/rpc.py), which derive earlier owners of slots from it. It is not
part of a document: members also come and go by health, which each node
determines.
"""

import time
from typing import Annotated
from typing import Any

import pydantic
from typing_extensions import NotRequired
from typing_extensions import TypedDict

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import shape

# Changes that a node remembers per pool, and weights per load balancer; older
# or further ones are left out.
CHANGES_MAX = 3
WEIGHTS_MAX = 256
# The longest idle timeout: no flow from before an older change is left.
AGE_MAX_S = 16000
# Load balancers in one answer.
PAGE = 100

# OXP_SLOTS_LIMIT of the datapath (octavia_xdp.h).
_SLOTS_MAX = 1048573

_Id = fields.Id
_Slots = Annotated[int, pydantic.Field(ge=1, le=_SLOTS_MAX)]
_Members = dict[_Id, fields.Weight]


def clock() -> int:
    """Return seconds of a monotonic clock of this machine; an offset keeps
    the times of all remembered changes at 0 or above."""
    return int(time.monotonic()) + AGE_MAX_S


@shape.strict
class Removed(TypedDict):
    """Earlier weight of a member that the pool no longer has. The slots that
    the others had beside it follow from its address and ``port``, which is 0
    unless nodes write members' ports."""

    address: fields.Address
    port: Annotated[int, pydantic.Field(ge=0, le=65535)]
    weight: fields.Weight


@shape.strict
class PastChange(TypedDict):
    """A change of the members of a pool that take new flows.

    ``members``: earlier weight by id of each member whose weight changed; 0:
    it took no new flows; empty if only the size of the table changed.
    ``removed``: the same of members that are gone. ``slots``: earlier size of
    the table. ``at``: time of the change by ``clock()`` of the node that
    reports it.
    """

    members: _Members
    removed: NotRequired[list[Removed]]
    slots: _Slots
    at: fields.Integer


@shape.strict
class AgedChange(TypedDict):
    """The same as sent to other nodes: with its ``age`` in seconds."""

    members: _Members
    removed: NotRequired[list[Removed]]
    slots: _Slots
    age: fields.Integer


def weights_in(history: dict[str, list[Any]]) -> int:
    """Return the number of weights in a history."""
    return sum(len(change['members']) + len(change.get('removed', ()))
               for changes in history.values() for change in changes)


def _not_too_long(history: dict[str, list[Any]]) -> dict[str, list[Any]]:
    number = weights_in(history)
    if number > WEIGHTS_MAX:
        raise errors.BadValue(f'it has {number} weights',
                              f'use at most {WEIGHTS_MAX}')
    return history


# By pool id, the newest change first.
History = Annotated[
    dict[_Id, Annotated[list[PastChange],
                        pydantic.Field(max_length=CHANGES_MAX)]],
    pydantic.Field(max_length=WEIGHTS_MAX),
    pydantic.AfterValidator(_not_too_long)]
Aged = Annotated[
    dict[_Id, Annotated[list[AgedChange],
                        pydantic.Field(max_length=CHANGES_MAX)]],
    pydantic.Field(max_length=WEIGHTS_MAX),
    pydantic.AfterValidator(_not_too_long)]


@shape.strict
class Answer(TypedDict):
    """Histories of pools as most live nodes report them, by load balancer id;
    one page of the load balancers that the asking node should have."""

    load_balancers: Annotated[dict[_Id, Aged],
                              pydantic.Field(max_length=PAGE)]
    more: _Id | None
