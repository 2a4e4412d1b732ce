# SPDX-License-Identifier: Apache-2.0
"""Load balancers: their wanted state, and what Octavia was sent.

A row that two transactions change is locked when it is read; on a cluster
the second transaction fails when it commits, and is retried.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Set
import functools
import json
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import sealed
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.controller import status_message
from octavia_xdp_provider.controller.store import addresses
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import bundles
from octavia_xdp_provider.controller.store import marks
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import moves
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.controller.store import tier_counters

# Seconds for which a deletion is remembered.
TOMBSTONE_S = 7 * 24 * 3600


class Promoted(NamedTuple):
    """A change that has become the wanted state.

    ``to_be_placed``: whether its nodes have yet to be chosen. ``hosts``: the
    nodes to be notified. ``zero_touch``: whether a controller decides how its
    members are reached, or did before.
    """

    load_balancer_id: str
    generation: int
    to_be_placed: bool = False
    hosts: frozenset[str] = frozenset()
    zero_touch: bool = False


class LoadBalancers(base.Queries):
    """Queries about load balancers."""

    @base.retried
    def create(self, document: spec.Document) -> int:
        """Store a load balancer that Octavia has. Returns its generation.

        Nothing changes if it already exists, so that a repeated message does
        no harm.

        :raises Conflict: another load balancer has the VIP.
        :raises Refused: it conflicts with another load balancer.
        """
        with self._database.write() as session:
            generation = base.next_generation(session)
            row = _lock_row(session, document['id'])
            if row is not None and not row.deleted:
                return int(row.generation)
            addresses.validate_together(session, document)
            if row is None:
                row = models.LoadBalancer(
                    id=document['id'], sent_generation=0,
                    failed_generation=0, removed='[]', document='{}',
                    generation=generation, changed_at=base.now(session))
                session.add(row)
            row.deleted = False
            row.vip_address = document['vip_address']
            session.flush()
            _set_document(session, row, document, generation,
                          spec.objects(document))
            return generation

    @base.retried
    def change(self, load_balancer_id: str,
               function: Callable[[spec.Document], spec.Document],
               expected: int | None = None,
               pending: Iterable[spec.Object] = ()) -> int | None:
        """Replace the document by ``function(document)``.

        Removed objects are stored until DELETED was sent for them. Returns
        the new generation.

        :param expected: do nothing and return None unless the document still
            has this generation, and no change is pending.
        :param pending: objects, besides new ones, that are PENDING in Octavia.
        :raises UnknownObject: the load balancer does not exist.
        :raises Refused: it would conflict with another load balancer.
        """
        with self._database.write() as session:
            generation = base.next_generation(session)
            row = _lock_row(session, load_balancer_id)
            if row is None or row.deleted:
                raise errors.UnknownObject(f'load balancer {load_balancer_id}')
            if expected is not None and (row.generation != expected
                                         or row.pending is not None):
                return None
            before = rows.document(row)
            after = function(before)
            addresses.validate_together(session, after)
            _set_changed(session, row, before, after, generation, {
                *pending, *(spec.objects(after) - spec.objects(before))})
            return generation

    @base.retried
    def promote(self, load_balancer_id: str, request: str) -> int | None:
        """Make a pending change, committed by Octavia, the wanted state.

        :returns: the new generation; None if this change is not pending.
        """
        with self._database.write() as session:
            generation = base.next_generation(session)
            row = base.connection(session).execute(
                _LOCKED, {'key': load_balancer_id}).first()
            promoted = _promote(session, row, request, generation, 0.0)
            return promoted and promoted.generation

    @base.retried
    def promote_request(self, request: str, nodes_delay_s: float,
                        heard: Iterable[str]) -> Promoted | None:
        """The same for the load balancer that a request is about.

        :param nodes_delay_s: seconds until the load balancer is due in the
            work queue: its nodes, which the caller notifies, should have
            reported by then.
        :param heard: conditions in which nodes are notified.
        :returns: None also if no such request was accepted.
        """
        with self._database.write() as session:
            base.draw(session)
            opened = base.connection(session)
            row = opened.execute(_ASKED_FOR, {'request': request}).first()
            promoted = row and _promote(session, row, request,
                                        int(row.drawn), nodes_delay_s)
            if not promoted:
                return None
            return promoted._replace(hosts=frozenset(opened.execute(
                _NOTIFIED, {'key': promoted.load_balancer_id,
                            'heard': list(heard)}).scalars()))

    @base.retried
    def delete(self, load_balancer_id: str,
               expected: int | None = None) -> int | None:
        """Mark a load balancer as deleted. Returns the generation, or None if
        it does not exist.

        :param expected: as in change().
        """
        with self._database.write() as session:
            generation = base.next_generation(session)
            row = _lock_row(session, load_balancer_id)
            if row is None or (expected is not None and (
                    row.generation != expected or row.pending is not None)):
                return None
            if row.deleted:
                return int(row.generation)
            _delete(session, load_balancer_id, generation, row.pending)
            return generation

    @base.retried
    def forget(self, load_balancer_id: str) -> None:
        """Delete a load balancer whose deletion was reported to Octavia, and
        keep a tombstone.

        Placements on nodes that have not confirmed the removal stay, so that
        a node that returns late still removes it.
        """
        with self._database.write() as session:
            row = _lock_row(session, load_balancer_id)
            if row is None or not row.deleted:
                return
            for child in (models.Part, models.ListenerCounter):
                session.query(child).filter_by(
                    load_balancer_id=load_balancer_id).delete()
            session.delete(row)
            now = base.now(session)
            session.merge(models.Tombstone(
                load_balancer_id=load_balancer_id, pending=None, at=now))
            session.query(models.Tombstone).filter(
                models.Tombstone.at < now - TOMBSTONE_S,
                models.Tombstone.pending.is_(None)).delete()

    def select(self, ids: Iterable[str] | None = None
               ) -> list[rows.LoadBalancer]:
        """Return all load balancers, or the existing ones of these ids."""
        with self._database.read() as session:
            query = session.query(models.LoadBalancer)
            if ids is not None:
                query = query.filter(models.LoadBalancer.id.in_(list(ids)))
            return [rows.load_balancer(row) for row in query]

    def get(self, load_balancer_id: str) -> rows.LoadBalancer | None:
        with self._database.read() as session:
            row = session.get(models.LoadBalancer, load_balancer_id)
            return rows.load_balancer(row) if row else None

    def tombstone(self, load_balancer_id: str) -> dict[str, Any] | None:
        """Return the pending deletion of a load balancer without a row."""
        with self._database.read() as session:
            row = session.get(models.Tombstone, load_balancer_id)
            return json.loads(row.pending) if row and row.pending else None


def _promote(session: orm.Session, row: Any, request: str,
             generation: int, nodes_delay_s: float) -> Promoted | None:
    """:param row: of the load balancer, locked; None if unknown."""
    pending = _pending(row, request)
    if row is None or pending is None:
        return None
    load_balancer_id = str(row.id)
    if pending['expected'] is None:
        _delete(session, load_balancer_id, generation, None, nodes_delay_s)
        return Promoted(load_balancer_id, generation,
                        zero_touch=row.zero_touch is not None)
    after = spec.complete(pending['expected'])
    before = rows.document(row) if row.generation else None
    is_failover = pending['change']['action'] == 'failover'
    # Creations and failovers need nodes to be chosen.
    to_be_placed = before is None or is_failover
    _set_changed(session, row, before, after, generation,
                 status_message.made_pending(before, after, pending['change']),
                 0.0 if to_be_placed else nodes_delay_s, promotes=True)
    if pending['change'].get('incomplete'):
        # A comparison with Octavia is requested, as by resync.py.
        session.execute(sa.update(models.LoadBalancer).where(
            models.LoadBalancer.id == load_balancer_id).values(
                listed_at='', compared_at=None))
    if is_failover:
        session.query(models.Placement).filter_by(
            load_balancer_id=load_balancer_id,
            removed_generation=None).update({'replace': True})
    return Promoted(
        load_balancer_id, generation, to_be_placed,
        zero_touch=row.zero_touch is not None or spec.is_zero_touch(after))


def _lock_row(session: orm.Session, load_balancer_id: str) -> Any:
    return session.get(models.LoadBalancer, load_balancer_id,
                       with_for_update=True)


def _set_changed(session: orm.Session, row: Any,
                 before: spec.Document | None, after: spec.Document,
                 generation: int, pending: Iterable[spec.Object],
                 delay_s: float = 0.0, promotes: bool = False) -> None:
    gone = (spec.objects(before) if before else set()) - spec.objects(after)
    listeners = [key for kind, key in gone if kind == 'listener']
    if listeners:
        session.query(models.ListenerCounter).filter(
            models.ListenerCounter.listener_id.in_(listeners)).delete()
    tier_counters.move(session, before, after)
    after = views.with_moves(before, after)
    if before is not None and moves.concerns(before, after):
        after = moves.note(before, after, base.now(session))
    _set_document(session, row, after, generation, pending,
                  before, delay_s, gone, promotes)
    if sealed.options(before).keys() - sealed.options(after).keys():
        documents = [after]
        if row.pending is not None and not promotes:
            documents.append(json.loads(row.pending)['expected'])
        bundles.keep(session, row.id, documents)


def _set_document(session: orm.Session, row: Any, document: spec.Document,
                  generation: int, pending: Iterable[spec.Object] = (),
                  before: spec.Document | None = None, delay_s: float = 0.0,
                  gone: Collection[spec.Object] = (),
                  promotes: bool = False) -> None:
    """:param row: the row in the database.

    :param gone: objects that have been removed from the document.
    :param promotes: whether this is the pending change.
    """
    base.connection(session).execute(*base.timed(session, _setting, {
        'key': row.id,
        'new_document': json.dumps(document, sort_keys=True),
        'new_generation': generation,
        'new_replicas': document['flavor'].get('replicas'),
        'new_zero_touch': (document['flavor'].get('zero_touch')
                           if spec.is_zero_touch(document) else None),
        'new_spread': spec.spread(document),
        'new_needs_proxies': tiers.needs_proxies(document),
        'new_removed': _with(row.removed, gone, generation),
        'new_unconfirmed': _with(
            _without(row.unconfirmed or '[]', gone), pending, generation),
        'new_pending': None if promotes else row.pending}))
    if not addresses.holds_the_same(before, document):
        addresses.reserve(session, row.id, [document])
    parts = _parts(document)
    if before is None or _parts(before) != parts:
        _set_parts(session, row, parts)
    marks.mark(session, [row.id], delay_s)


def _parts(document: spec.Document) -> set[str]:
    """Return the ids of all objects that others can be below."""
    return {*document['pools'], *document['listeners'], *(
        policy_id for listener in document['listeners'].values()
        for policy_id in listener.get('l7policies', {}))}


def _set_parts(session: Any, row: Any, parts: Set[str]) -> None:
    stored = {part.id: part for part in session.query(
        models.Part).filter_by(load_balancer_id=row.id)}
    for part_id in parts - stored.keys():
        session.merge(models.Part(id=part_id, load_balancer_id=row.id))
    for part_id in stored.keys() - parts:
        session.delete(stored[part_id])


def _delete(session: orm.Session, load_balancer_id: str, generation: int,
            pending: str | None, delay_s: float = 0.0) -> None:
    """:param pending: the pending change from now on."""
    opened = base.connection(session)
    opened.execute(*base.timed(session, _deleting, {
        'key': load_balancer_id, 'new_generation': generation,
        'new_pending': pending}))
    opened.execute(_LEAVING, {'key': load_balancer_id,
                              'new_generation': generation})
    bundles.keep(session, load_balancer_id, [])
    marks.mark(session, [load_balancer_id], delay_s)


def _pending(row: Any, request: str) -> dict[str, Any] | None:
    """Return the pending change of a row, if the request is its own."""
    if row is None or row.pending is None:
        return None
    pending: dict[str, Any] = json.loads(row.pending)
    return pending if pending['request'] == request else None


def _with(text: str, objects: Iterable[spec.Object], generation: int) -> str:
    """Return a list of [kind, id, generation] with these objects updated."""
    entries = {(kind, key): number for kind, key, number in json.loads(text)}
    entries.update(dict.fromkeys(objects, generation))
    return json.dumps([[kind, key, number] for (kind, key), number
                       in sorted(entries.items())])


def _without(text: str, objects: Iterable[spec.Object]) -> str:
    gone = set(objects)
    return json.dumps([item for item in json.loads(text)
                       if tuple(item[:2]) not in gone])


# Statements that are built once, see base.py.

_ANSWERED = models.AnsweredRequest.__table__
_BALANCERS = models.LoadBalancer.__table__
_PLACEMENTS = models.Placement.__table__
_NODES = models.Node.__table__
_KEY: Any = sa.bindparam('key')
_GENERATION: Any = sa.bindparam('new_generation')
_LOCKED = sa.select(_BALANCERS).where(
    _BALANCERS.c.id == _KEY).with_for_update()
_LEAVING = sa.update(_PLACEMENTS).where(
    _PLACEMENTS.c.load_balancer_id == _KEY,
    _PLACEMENTS.c.removed_generation.is_(None)).values(
        removed_generation=_GENERATION)
_SEQUENCE = models.Sequence.__table__
_ASKED_FOR = sa.select(
    _BALANCERS, sa.select(_SEQUENCE.c.value).where(
        _SEQUENCE.c.id == 1).scalar_subquery().label('drawn')).join(
            _ANSWERED, _ANSWERED.c.load_balancer_id == _BALANCERS.c.id).where(
                _ANSWERED.c.request_id == sa.bindparam('request')
            ).with_for_update()
_NOTIFIED = sa.select(_NODES.c.host).join(
    _PLACEMENTS, _PLACEMENTS.c.host == _NODES.c.host).where(
        _PLACEMENTS.c.load_balancer_id == sa.bindparam('key'),
        _NODES.c.condition.in_(sa.bindparam('heard', expanding=True)))


@functools.cache
def _setting(dialect: str) -> Any:
    """Set the document of a load balancer."""
    return sa.update(_BALANCERS).where(_BALANCERS.c.id == _KEY).values(
        generation=_GENERATION, changed_at=base.clock(dialect), **{
            name: sa.bindparam(f'new_{name}') for name in (
                'document', 'replicas', 'zero_touch', 'spread',
                'needs_proxies', 'removed', 'unconfirmed', 'pending')})


@functools.cache
def _deleting(dialect: str) -> Any:
    return sa.update(_BALANCERS).where(_BALANCERS.c.id == _KEY).values(
        deleted=True, generation=_GENERATION,
        changed_at=base.clock(dialect), pending=sa.bindparam('new_pending'))
