# SPDX-License-Identifier: Apache-2.0
"""Changes that Octavia has requested and may not have committed yet.

The driver is called inside Octavia's open transaction. Its change is checked,
its needs are reserved, and it is stored as the load balancer's pending change,
which no node sees. A controller makes it the wanted state once Octavia has
committed it, and drops it otherwise.

Octavia admits the next change of a load balancer only after the last one was
answered: a newer pending change replaces an older one, which was rolled back.
So a large document is changed before a generation is drawn, while no other
transaction waits, and the result is used if it still is the same document.
"""

from collections.abc import Sequence
import functools
import json
import random
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import addresses
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import bundles as bundles_
from octavia_xdp_provider.controller.store import capacity
from octavia_xdp_provider.controller.store import limits as limits_
from octavia_xdp_provider.controller.store import marks
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import prepared as prepared_
from octavia_xdp_provider.controller.store import rows

# Seconds for which requests are stored, so that a duplicated message has one
# effect. No message lives that long.
REMEMBER_S = 3600
# Share of requests that also delete old ones.
FORGET_SHARE = 0.01

# Seconds until the deadline if the driver gives none.
DEADLINE_S = 30

# Seconds until Octavia is asked whether it has committed a change that the
# driver should report. A busy controller may read the report late, and asking
# earlier would add load.
UNREPORTED_S = 3.0


_CANCELED = models.CanceledRequest.__table__
_ANSWERED = models.AnsweredRequest.__table__
_BALANCERS = models.LoadBalancer.__table__
_PARTS = models.Part.__table__
_USAGES = models.Usage.__table__


# Bytes above which changes of a document are prepared, which costs another
# query; and the most load balancers and parts that are remembered as large.
_LARGE_BYTES = 256 * 1024
_LARGE_MAX = 4096


class Stored(NamedTuple):
    """A pending change. ``now``: the database's time."""

    load_balancer_id: str
    now: float


class Requests(base.Queries):
    """Queries about pending changes."""

    def __init__(self, database: base.Database) -> None:
        super().__init__(database)
        # Ids of load balancers and parts (models.Part) with large documents.
        self._large: set[str | None] = set()

    @base.retried
    def add(self, change: changes.Change, request: str,
            deadline: float | None = None, reports_end: bool = False,
            limits: limits_.Limits = limits_.NONE,
            policy: address_policy.AddressPolicy | None = None,
            bundles: Sequence[bundles_.Bundle] = ()) -> Stored:
        """Store a pending change.

        A repeated request changes nothing and has the same answer.

        :param request: a UUID.
        :param deadline: in the database's time. None: after DEADLINE_S.
        :param reports_end: whether the driver reports how Octavia's
            transaction ends.
        :param policy: which addresses new members may have.
        :param bundles: that the change brings along.
        :raises TooLate: it is past its deadline, or was canceled.
        :raises UnknownObject: it names an object that does not exist.
        :raises Conflict: another load balancer has the VIP.
        :raises Refused: it is not supported, or conflicts with others.
        """
        if 'bundles' in change:
            raise ValueError('contents of bundles must not be stored')
        making = prepared_.Making(change, policy)
        prepared = self._prepare(making)
        with self._database.write() as session:
            # From here on other transactions wait, or fail when they commit.
            base.draw(session)
            row = base.connection(session).execute(*base.timed(
                session, _remembered, {
                    'request': request, 'part': changes.parent(change),
                    'key': change.get('load_balancer_id')})).one()
            now = float(row.now)
            if deadline is None:
                deadline = now + DEADLINE_S
            if now > deadline:
                raise errors.TooLate(
                    f'it came {now - deadline:.1f} s after its deadline')
            if row.canceled is not None:
                raise errors.TooLate('its caller has given it up')
            if row.answered is not None:
                return Stored(str(row.answered), now)
            key = row.key
            if key is None:
                raise errors.UnknownObject(
                    f'the parent {changes.parent(change)} of '
                    f'{change["object"]} {change["object_id"]}')
            self._store(session, key, row, making,
                        {'request': request, 'deadline': deadline,
                         'change': change, 'reports_end': reports_end},
                        limits, prepared, bundles)
            base.connection(session).execute(_ANSWERED.insert(), {
                'request_id': request, 'load_balancer_id': key, 'at': now})
            if random.random() < FORGET_SHARE:
                _forget_requests(session, now)
            marks.mark(session, [key], UNREPORTED_S if reports_end else 0.0)
            return Stored(key, now)

    def _prepare(self, making: prepared_.Making) -> prepared_.Prepared | None:
        """Apply a change to the document without holding a lock.

        :returns: None if it is fast enough to be done under the lock.
        """
        change = making.change
        if change['object'] == 'loadbalancer':
            if change['action'] == 'create':
                return making.creation()
            if change['action'] == 'delete':
                return None
        if _name(change) not in self._large:
            return None
        with self._database.read_rows() as opened:
            text = opened.execute(_TEXT, {
                'part': changes.parent(change),
                'key': change.get('load_balancer_id')}).scalar()
        return text and making.of(text)

    def _store(self, session: orm.Session, key: str, row: Any,
               making: prepared_.Making, pending: dict[str, Any],
               limits: limits_.Limits,
               prepared: prepared_.Prepared | None,
               bundles: Sequence[bundles_.Bundle]) -> None:
        """:param row: of the load balancer; its id is None if unknown."""
        change = making.change
        if change['object'] == 'loadbalancer':
            if change['action'] == 'create':
                _store_creation(session, key, pending, limits,
                                prepared or making.creation(), bundles)
                return
            if change['action'] == 'delete':
                _store_deletion(session, key, pending)
                return
        opened = base.connection(session)
        if row.id is None:
            raise errors.UnknownObject(f'load balancer {key}')
        if row.deleted:
            raise errors.Conflict(
                f'load balancer {key} is being deleted, which ends when all '
                'LB nodes have removed it; nothing else can be done with it.')
        if prepared is None or prepared.of != row.document:
            prepared = making.of(row.document)
        before, after, text = _checked(session, prepared)
        bundles_.check(session, after, bundles)
        limits_.check(session, limits, before, after, row.bytes or 0,
                      len(text))
        if len(text) > _LARGE_BYTES:
            if len(self._large) >= _LARGE_MAX:
                self._large.clear()
            self._large.add(_name(change))
        if row.generation == 0:
            opened.execute(_EXPECTED, {'key': key, 'new_document': text})
            before = after
        # With an earlier pending change, its needs are still reserved.
        is_held = (row.pending is None
                   and addresses.holds_the_same(before, after)
                   and limits_.in_steps(len(text)) == row.bytes)
        opened.execute(_PENDING, {
            'key': key, 'new_pending': _pending_text(pending, text)})
        if not is_held:
            addresses.reserve(session, key, [before or after, after])
        bundles_.put(session, key, bundles)
        if row.pending is not None:
            bundles_.keep(session, key, [before, after])

    @base.retried
    def cancel(self, request: str) -> str | None:
        """Cancel a request that its caller has abandoned.

        Octavia rolls it back. If the request arrives later, it is refused.

        :returns: id of the load balancer whose pending change was dropped, or
            None.
        """
        with self._database.write() as session:
            base.next_generation(session)
            session.merge(models.CanceledRequest(
                request_id=request, at=base.now(session)))
            answered = session.get(models.AnsweredRequest, request)
            if answered is None:
                return None
            key = str(answered.load_balancer_id)
            if not _drop(session, key, request):
                return None
            marks.mark(session, [key])
            return key

    @base.retried
    def drop(self, load_balancer_id: str, request: str) -> bool:
        """Drop a pending change that Octavia has not committed.

        :returns: False if it is not the pending one.
        """
        with self._database.write() as session:
            base.next_generation(session)
            dropped = _drop(session, load_balancer_id, request)
            if dropped:
                marks.mark(session, [load_balancer_id])
            return dropped


def _store_creation(session: Any, key: str,
                    pending: dict[str, Any], limits: limits_.Limits,
                    prepared: prepared_.Prepared,
                    bundles: Sequence[bundles_.Bundle]) -> None:
    row = session.get(models.LoadBalancer, key)
    if row is not None and (row.deleted or row.generation > 0):
        raise errors.Conflict(
            f'load balancer {key} exists already at the xdp provider.')
    _, document, text = _checked(session, prepared)
    bundles_.check(session, document, bundles)
    limits_.check(session, limits, None, document, 0, len(text))
    if row is None:
        row = models.LoadBalancer(
            id=key, generation=0, sent_generation=0, failed_generation=0,
            removed='[]', deleted=False)
        session.add(row)
    row.vip_address = document['vip_address']
    row.document = text
    row.changed_at = base.now(session)
    _set_pending(session, row, pending, text)
    addresses.reserve(session, key, [document])
    bundles_.put(session, key, bundles)
    bundles_.keep(session, key, [document])


def _store_deletion(session: Any, key: str, pending: dict[str, Any]) -> None:
    row = session.get(models.LoadBalancer, key)
    if row is None:
        row = session.get(models.Tombstone, key)
        if row is None:
            row = models.Tombstone(load_balancer_id=key, at=base.now(session))
            session.add(row)
    _set_pending(session, row, pending, None)


def _set_pending(session: Any, row: Any, pending: dict[str, Any],
                 expected: str | None) -> None:
    row.pending = _pending_text(pending, expected)
    session.flush()


def _checked(session: orm.Session, prepared: prepared_.Prepared
             ) -> tuple[spec.Document | None, spec.Document, str]:
    """:returns: the document before and after a change, and its text.

    :raises Refused: it is not supported, or conflicts with others.
    """
    if prepared.error is not None:
        raise prepared.error
    assert prepared.after is not None
    capacity.check_nodes(session, prepared.before, prepared.after,
                         prepared.unused)
    addresses.validate_together(session, prepared.after)
    return prepared.before, prepared.after, prepared.text


def _drop(session: Any, key: str, request: str) -> bool:
    """Drop a pending change; return False if it is not the pending one."""
    row = session.get(models.LoadBalancer, key) or session.get(
        models.Tombstone, key)
    if row is None or row.pending is None or (
            json.loads(row.pending)['request'] != request):
        return False
    row.pending = None
    if isinstance(row, models.LoadBalancer):
        if row.generation == 0:
            addresses.reserve(session, key, [])
            bundles_.keep(session, key, [])
            session.delete(row)
        else:
            addresses.reserve(session, key, [rows.document(row)])
            bundles_.keep(session, key, [rows.document(row)])
    return True


def _forget_requests(session: orm.Session, now: float) -> None:
    for table in (models.AnsweredRequest, models.CanceledRequest):
        session.query(table).filter(table.at < now - REMEMBER_S).delete()


def _name(change: changes.Change) -> str | None:
    """Return the id of the changed load balancer, or of a part of it."""
    return change.get('load_balancer_id') or changes.parent(change)


def _pending_text(pending: dict[str, Any], expected: str | None) -> str:
    """:param expected: text of the document, which is not encoded again."""
    rest = json.dumps(pending, sort_keys=True)
    return f'{rest[:-1]}, "expected": {expected or "null"}}}'


# Statements that are built once, see base.py.

_KEY: Any = sa.bindparam('key')
_PENDING = sa.update(_BALANCERS).where(_BALANCERS.c.id == _KEY).values(
    pending=sa.bindparam('new_pending'))
_EXPECTED = sa.update(_BALANCERS).where(_BALANCERS.c.id == _KEY).values(
    document=sa.bindparam('new_document'))
# Changes of members, for example, only name the pool.
_OWNER: Any = sa.func.coalesce(
    sa.bindparam('key', type_=sa.String()), sa.select(
        _PARTS.c.load_balancer_id).where(
            _PARTS.c.id == sa.bindparam('part', type_=sa.String())
    ).scalar_subquery())

# The document of the load balancer that a change is about.
_TEXT = sa.select(_BALANCERS.c.document).where(_BALANCERS.c.id == _OWNER)


@functools.cache
def _remembered(dialect: str) -> Any:
    """Select the state of a request, the time, and the load balancer that the
    request is about, if it exists."""
    owner = sa.select(_OWNER.label('key')).subquery()
    return sa.select(
        owner.c.key, *(_BALANCERS.c[name] for name in (
            'id', 'deleted', 'document', 'generation', 'pending')),
        _USAGES.c.bytes,
        base.clock(dialect).label('now'),
        sa.select(_CANCELED.c.at).where(
            _CANCELED.c.request_id == sa.bindparam('request')
        ).scalar_subquery().label('canceled'),
        sa.select(_ANSWERED.c.load_balancer_id).where(
            _ANSWERED.c.request_id == sa.bindparam('request')
        ).scalar_subquery().label('answered')).select_from(owner.outerjoin(
            _BALANCERS, _BALANCERS.c.id == owner.c.key).outerjoin(
                _USAGES, _USAGES.c.load_balancer_id == owner.c.key))
