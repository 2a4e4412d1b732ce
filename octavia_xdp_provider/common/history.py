# SPDX-License-Identifier: Apache-2.0
"""Which members of a pool took new flows before: what LB nodes report of it,
and what one without any state is told (common/rpc.py).

Slots know their earlier owners by these changes. It is no part of a document:
members come and go by health as well, which each node sees for itself.
"""

import time
from typing import Annotated
from typing import Any

import pydantic
from typing_extensions import TypedDict

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import fields
from octavia_xdp_provider.common import shape

# Of a pool that a node remembers, and of weights in those of one load
# balancer: what is older, or more, is left out.
CHANGES_MAX = 3
WEIGHTS_MAX = 256
# Seconds: the longest idle timeout. Of what is older no flow is left.
AGE_MAX_S = 16000
# Load balancers in one answer.
PAGE = 100

# Of the datapath (octavia_xdp.h): OXP_SLOTS_LIMIT.
_SLOTS_MAX = 1048573

_Id = fields.Id
_Slots = Annotated[int, pydantic.Field(ge=1, le=_SLOTS_MAX)]
_Members = dict[_Id, fields.Weight]


def clock() -> int:
    """Seconds, by a clock of this machine that only runs on: of all that is
    remembered a number that is not below 0."""
    return int(time.monotonic()) + AGE_MAX_S


@shape.strict
class PastChange(TypedDict):
    """A change of those members of a pool that take new flows.

    ``members``: of those that were others before, by id, the weights with
    which they took new flows; 0: they took none. Nobody, where the table alone
    has changed. ``slots``: of the table until then. ``at``: by ``clock()`` of
    the node that reports it.
    """

    members: _Members
    slots: _Slots
    at: fields.Integer


@shape.strict
class AgedChange(TypedDict):
    """The same as others are told: ``age``, seconds."""

    members: _Members
    slots: _Slots
    age: fields.Integer


def weights_in(history: dict[str, list[Any]]) -> int:
    """How many weights a history has."""
    return sum(len(change['members']) for changes in history.values()
               for change in changes)


def _not_too_long(history: dict[str, list[Any]]) -> dict[str, list[Any]]:
    found = weights_in(history)
    if found > WEIGHTS_MAX:
        raise errors.BadValue(f'it has {found} weights',
                              f'use at most {WEIGHTS_MAX}')
    return history


# By id of the pool, the newest change first.
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
    """Histories of pools as most live nodes report them, by id of the load
    balancer; one page of those that the node that asks should have."""

    load_balancers: Annotated[dict[_Id, Aged],
                              pydantic.Field(max_length=PAGE)]
    more: _Id | None
