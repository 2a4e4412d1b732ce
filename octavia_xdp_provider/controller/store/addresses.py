# SPDX-License-Identifier: Apache-2.0
"""Which addresses load balancers have as VIPs and as members.

An address is either the VIP of one load balancer or a member of any number of
them: packets to a member that is a VIP would loop between LB nodes. Separate
tables with indexes answer this, so that the cost of a change depends only on
its size. A load balancer holds the addresses of its document and those of its
pending change. While it is being deleted, it holds only its VIPs, as long as
it is on a node that is neither silent nor dead, which may announce them.

A generation is always drawn first in the same transaction: of two
transactions that take one address, the second sees the first, or fails when
it commits and is retried.
"""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.api import rules
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import capacity
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows


def reserve(session: orm.Session, load_balancer_id: str,
            documents: Iterable[spec.Document]) -> None:
    """Hold exactly the addresses that these documents need.

    :raises Conflict: another load balancer has a VIP.
    :raises Refused: a VIP is a member's address, or vice versa.
    """
    vips: set[str] = set()
    members: set[str] = set()
    documents = list(documents)
    capacity.account(session, load_balancer_id, documents)
    for document in documents:
        vips |= set(spec.vips(document))
        members |= spec.member_addresses(document)
    new_vips = vips - _held(session, models.Vip, load_balancer_id)
    new_members = members - _held(session, models.MemberAddress,
                                  load_balancer_id)
    _check_vips(session, load_balancer_id, new_vips, members)
    _check_members(session, load_balancer_id, new_members, vips)
    _replace(session, models.Vip, load_balancer_id, vips)
    _replace(session, models.MemberAddress, load_balancer_id, members)


def holds_the_same(document: spec.Document | None,
                   other: spec.Document | None) -> bool:
    """Return whether two documents hold the same addresses and have the
    same needs, which most changes do not affect."""
    return bool(document and other
                and spec.vips(document) == spec.vips(other)
                and spec.member_addresses(document)
                == spec.member_addresses(other)
                and capacity.need(document) == capacity.need(other))


def _held(session: orm.Session, table: Any, load_balancer_id: str) -> set[str]:
    return {address for address, in session.query(table.address).filter(
        table.load_balancer_id == load_balancer_id)}


def _holders(session: orm.Session, table: Any, addresses: set[str],
             load_balancer_id: str) -> dict[str, str]:
    """Return addresses that other load balancers hold → the holder."""
    holders: dict[str, str] = {}
    is_held = models.LoadBalancer.deleted.is_(False)
    if table is models.Vip:
        is_held |= _ON_A_NODE
    for some in base.chunks(addresses):
        holders.update(session.query(
            table.address, table.load_balancer_id).join(
                models.LoadBalancer,
                models.LoadBalancer.id == table.load_balancer_id).filter(
                    table.address.in_(some),
                    table.load_balancer_id != load_balancer_id,
                    is_held).all())
    return holders


def _check_vips(session: orm.Session, load_balancer_id: str,
                vips: set[str], members: set[str]) -> None:
    for address in sorted(_holders(session, models.Vip, vips,
                                   load_balancer_id)):
        raise errors.Conflict(
            f'VIP address {address} is already announced for another '
            'load balancer of the xdp provider, or for one that is being '
            'deleted; use another address, or try again when that is '
            'gone.')
    taken = set(_holders(session, models.MemberAddress, vips,
                         load_balancer_id)) | vips & members
    for address in sorted(taken):
        raise errors.Refused(
            'vip_address', f'{address} is a member or monitor address of '
            'a load balancer of this provider, and packets to it would '
            'go round between LB nodes', 'use another address')


def _check_members(session: orm.Session, load_balancer_id: str,
                   members: set[str], vips: set[str]) -> None:
    taken = set(_holders(session, models.Vip, members,
                         load_balancer_id)) | members & vips
    for address in sorted(taken):
        raise errors.Refused(
            'address', f'{address} is the VIP of a load balancer of this '
            'provider, and packets to it would go round between LB nodes',
            'use the addresses of that load balancer\'s members')


def _replace(session: orm.Session, table: Any, load_balancer_id: str,
             wanted: set[str]) -> None:
    held = _held(session, table, load_balancer_id)
    for some in base.chunks(held - wanted):
        session.query(table).filter(table.load_balancer_id == load_balancer_id,
                                    table.address.in_(some)).delete()
    if new := wanted - held:
        session.execute(table.__table__.insert(), [
            {'address': address, 'load_balancer_id': load_balancer_id}
            for address in sorted(new)])


def _sharing_members(session: orm.Session, document: spec.Document
                     ) -> set[str]:
    """Return ids of other load balancers that share a member."""
    ids: set[str] = set()
    for some in base.chunks(spec.member_addresses(document)):
        ids.update(key for key, in session.query(
            models.MemberAddress.load_balancer_id).filter(
                models.MemberAddress.address.in_(some),
                models.MemberAddress.load_balancer_id
                != document['id']).distinct())
    return ids


def validate_together(session: orm.Session, document: spec.Document) -> None:
    """Check a document against those of others that share a member.

    :raises Refused: it conflicts with another load balancer.
    """
    if not rules.concerns_others(document):
        return
    for some in base.chunks(_sharing_members(session, document)):
        for row in session.query(models.LoadBalancer).filter(
                models.LoadBalancer.id.in_(some),
                models.LoadBalancer.deleted.is_(False)):
            rules.validate_together(document, rows.document(row))


# Whether a load balancer is on a working node: a deletion waits for no others.
_ON_A_NODE: Any = sa.exists().where(
    models.Placement.load_balancer_id == models.LoadBalancer.id,
    models.Node.host == models.Placement.host,
    models.Node.condition.in_(('live', 'disabled', 'draining')))
