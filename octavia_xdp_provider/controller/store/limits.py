# SPDX-License-Identifier: Apache-2.0
"""Limits of the size of a load balancer and of a project: ``[limits]``.

The capacity of LB nodes does not limit the cost to controllers: pools without
a listener take no room on nodes, but are parsed, stored and sent. So all
members count here, and the bytes of the document. Load balancers beyond a
limit may stay and shrink.
"""

import dataclasses

from oslo_config import cfg
import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import models

# Sizes are stored in steps, so that few changes have to store one.
_STEP = 16 * 1024


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits, named like their options in ``[limits]``; 0 for no limit."""

    load_balancer_members: int = 0
    load_balancer_bytes: int = 0
    project_members: int = 0
    project_bytes: int = 0


NONE = Limits()


def of(conf: cfg.ConfigOpts) -> Limits:
    """Return the configured limits, which may change at any time."""
    return Limits(**{field.name: conf.limits[field.name]
                     for field in dataclasses.fields(Limits)})


def members(document: spec.Document | None) -> int:
    """Return the number of members, including those of unused pools."""
    return sum(len(pool['members']) for pool in document['pools'].values()
               ) if document else 0


def in_steps(size: int) -> int:
    """Round a size up to the steps in which it is stored."""
    return -(-size // _STEP) * _STEP


def check(session: orm.Session, limits: Limits, before: spec.Document | None,
          after: spec.Document, size_before: int, size: int) -> None:
    """Check a changed document against the limits.

    :param size_before: size of the former document, in steps.
    :param size: bytes of the document.
    :raises Refused: it has grown and exceeds a limit.
    """
    more_members = members(after) > members(before)
    more_bytes = in_steps(size) > size_before
    if more_members:
        _compare('load balancer', 'members', members(after),
                 limits.load_balancer_members)
    if more_bytes:
        _compare('load balancer', 'bytes', size, limits.load_balancer_bytes)
    project = after.get('project_id')
    if not project or not ((more_members and limits.project_members)
                           or (more_bytes and limits.project_bytes)):
        return
    others = session.query(
        sa.func.sum(models.Usage.all_members),
        sa.func.sum(models.Usage.bytes)).filter(
            models.Usage.project_id == project,
            models.Usage.load_balancer_id != after['id']).one()
    if more_members:
        _compare('project', 'members', int(others[0] or 0) + members(after),
                 limits.project_members)
    if more_bytes:
        _compare('project', 'bytes', int(others[1] or 0) + in_steps(size),
                 limits.project_bytes)


def _compare(whose: str, quantity: str, number: int, limit: int) -> None:
    if limit and number > limit:
        raise errors.Refused(
            'members' if quantity == 'members' else 'pools',
            f'the {whose} would have {number} {quantity}, and the operator '
            f'allows {limit}', 'use fewer members, pools and networks, or '
            'ask the operator for more')
