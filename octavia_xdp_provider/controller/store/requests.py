# SPDX-License-Identifier: Apache-2.0
"""Changes that Octavia has asked for and may not have committed yet.

The driver is called inside Octavia's open transaction. What it asks for is
checked, what it needs is reserved, and it is stored as the load balancer's
pending change, which no node sees. A controller makes it the wanted state
once Octavia has committed it, and drops it otherwise.

Octavia admits the next change of a load balancer only after the last one was
answered: a newer pending change replaces an older one, which was rolled back.
So what follows from a large document is made before a generation is drawn,
where it makes nobody wait, and used if it still is the same document.
"""

import functools
import json
import random
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from octavia_xdp_provider.common import address_policy
from octavia_xdp_provider.common import changes
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.store import addresses
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import limits as limits_
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import prepared as prepared_
from octavia_xdp_provider.controller.store import rows

# Seconds for which requests are remembered, so that a message which comes
# twice has one effect. No message lives for so long.
REMEMBER_S = 3600
# Share of the requests that look for those that are to be forgotten.
FORGET_SHARE = 0.01

# Seconds until the deadline of a driver that names none.
DEADLINE_S = 30

# Seconds until Octavia is asked for the commit of a change although the driver
# is to report it. A busy controller takes its time to read that, and asking
# would make it busier.
UNREPORTED_S = 3.0


_CANCELED = models.CanceledRequest.__table__
_ANSWERED = models.AnsweredRequest.__table__
_BALANCERS = models.LoadBalancer.__table__
_POOLS = models.Pool.__table__
_USAGES = models.Usage.__table__


# Bytes of a document from which on a change of it is prepared: it costs one
# more look at the database. Those of whose objects this is known, at most.
_LARGE_BYTES = 256 * 1024
_LARGE_MAX = 4096


class Stored(NamedTuple):
    """A pending change. ``now``: the database's time."""

    load_balancer_id: str
    now: float


class Requests(addresses.Addresses):
    """Queries about pending changes."""

    def __init__(self, manager: Any) -> None:
        super().__init__(manager)
        # Names of load balancers and pools with large documents.
        self._large: set[str | None] = set()

    def now(self) -> float:
        """The database's time, in seconds since the epoch."""
        with self._read() as session:
            return self._now(session)

    @base.retried
    def request(self, change: changes.Change, request: str,
                deadline: float | None = None, reports_end: bool = False,
                limits: limits_.Limits = limits_.NONE,
                policy: address_policy.AddressPolicy | None = None
                ) -> Stored:
        """Store a pending change.

        The same request once more changes nothing and has the same answer.

        :param request: a UUID.
        :param deadline: in the database's time. None: in a while.
        :param reports_end: whether the driver reports how Octavia's
            transaction ends.
        :param policy: which addresses new members may have.
        :raises TooLate: it is past its deadline, or was canceled.
        :raises UnknownObject: it names what is not there.
        :raises Conflict: another load balancer has the VIP.
        :raises Refused: it cannot be done, alone or beside others.
        """
        making = prepared_.Making(change, policy)
        prepared = self._prepare(making)
        with self._write() as session:
            # Others wait from here on, or fail when they commit.
            self._draw(session)
            found = base.connection(session).execute(*self._timed(
                session, _remembered, {
                    'request': request, 'pool': change.get('pool_id'),
                    'key': change.get('load_balancer_id')})).one()
            now = float(found.now)
            if deadline is None:
                deadline = now + DEADLINE_S
            if now > deadline:
                raise errors.TooLate(
                    f'it came {now - deadline:.1f} s after its deadline')
            if found.canceled is not None:
                raise errors.TooLate('its caller has given it up')
            if found.answered is not None:
                return Stored(str(found.answered), now)
            key = found.key
            if key is None:
                raise errors.UnknownObject(f'pool {change["pool_id"]}')
            self._store(session, key, found, making,
                        {'request': request, 'deadline': deadline,
                         'change': change, 'reports_end': reports_end},
                        limits, prepared)
            base.connection(session).execute(_ANSWERED.insert(), {
                'request_id': request, 'load_balancer_id': key, 'at': now})
            if random.random() < FORGET_SHARE:
                self._forget_requests(session, now)
            self._mark_work(session, [key],
                            UNREPORTED_S if reports_end else 0.0)
            return Stored(key, now)

    def _prepare(self, making: prepared_.Making
                 ) -> prepared_.Prepared | None:
        """What a change would make of the document, without a lock.

        :returns: None where it is made fast enough with it.
        """
        change = making.change
        if change['object'] == 'loadbalancer':
            if change['action'] == 'create':
                return making.creation()
            if change['action'] == 'delete':
                return None
        if _name(change) not in self._large:
            return None
        with self._reading_rows() as opened:
            text = opened.execute(_TEXT, {
                'pool': change.get('pool_id'),
                'key': change.get('load_balancer_id')}).scalar()
        return text and making.of(text)

    def _store(self, session: Any, key: str, row: Any,
               making: prepared_.Making, pending: dict[str, Any],
               limits: limits_.Limits,
               prepared: prepared_.Prepared | None) -> None:
        """:param row: of the load balancer; without an id there is none."""
        change = making.change
        if change['object'] == 'loadbalancer':
            if change['action'] == 'create':
                self._store_creation(session, key, pending, limits,
                                     prepared or making.creation())
                return
            if change['action'] == 'delete':
                self._store_deletion(session, key, pending)
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
        before, after, text = self._checked(session, prepared)
        limits_.check(session, limits, before, after, row.bytes or 0,
                      len(text))
        if len(text) > _LARGE_BYTES:
            if len(self._large) >= _LARGE_MAX:
                self._large.clear()
            self._large.add(_name(change))
        if row.generation == 0:
            opened.execute(_EXPECTED, {'key': key, 'new_document': text})
            before = after
        # What an earlier pending change held is held until now.
        is_held = (row.pending is None and self._holds_the_same(before, after)
                   and limits_.in_steps(len(text)) == row.bytes)
        opened.execute(_PENDING, {
            'key': key, 'new_pending': _pending_text(pending, text)})
        if not is_held:
            self._reserve(session, key, [before or after, after])

    def _store_creation(self, session: Any, key: str,
                        pending: dict[str, Any], limits: limits_.Limits,
                        prepared: prepared_.Prepared) -> None:
        row = session.get(models.LoadBalancer, key)
        if row is not None and (row.deleted or row.generation > 0):
            raise errors.Conflict(
                f'load balancer {key} exists already at the xdp provider.')
        _, document, text = self._checked(session, prepared)
        limits_.check(session, limits, None, document, 0, len(text))
        if row is None:
            row = models.LoadBalancer(
                id=key, generation=0, sent_generation=0, failed_generation=0,
                removed='[]', deleted=False)
            session.add(row)
        row.vip_address = document['vip_address']
        row.document = text
        row.changed_at = self._now(session)
        self._set_pending(session, row, pending, text)
        self._reserve(session, key, [document])

    def _store_deletion(self, session: Any, key: str,
                        pending: dict[str, Any]) -> None:
        row = session.get(models.LoadBalancer, key)
        if row is None:
            row = session.get(models.Tombstone, key)
            if row is None:
                row = models.Tombstone(load_balancer_id=key,
                                       at=self._now(session))
                session.add(row)
        self._set_pending(session, row, pending, None)

    @staticmethod
    def _set_pending(session: Any, row: Any, pending: dict[str, Any],
                     expected: str | None) -> None:
        row.pending = _pending_text(pending, expected)
        session.flush()

    def _checked(self, session: Any, prepared: prepared_.Prepared
                 ) -> tuple[spec.Document | None, spec.Document, str]:
        """:returns: the document before and after a change, and its text.

        :raises Refused: it cannot be done, alone or beside others.
        """
        if prepared.error is not None:
            raise prepared.error
        assert prepared.after is not None
        self._check_nodes(session, prepared.before, prepared.after,
                          prepared.unused)
        self._validate_together(session, prepared.after)
        return prepared.before, prepared.after, prepared.text

    @base.retried
    def cancel(self, request: str) -> str | None:
        """Take a request back whose caller has given it up.

        Octavia rolls back what its caller gave up. A request that comes
        later is refused.

        :returns: id of the load balancer that lost a pending change.
        """
        with self._write() as session:
            self._next_generation(session)
            session.merge(models.CanceledRequest(
                request_id=request, at=self._now(session)))
            answered = session.get(models.AnsweredRequest, request)
            if answered is None:
                return None
            key = str(answered.load_balancer_id)
            if not self._drop(session, key, request):
                return None
            self._mark_work(session, [key])
            return key

    @base.retried
    def drop(self, load_balancer_id: str, request: str) -> bool:
        """Forget a pending change: Octavia has not committed it.

        :returns: False if it is not the pending one.
        """
        with self._write() as session:
            self._next_generation(session)
            dropped = self._drop(session, load_balancer_id, request)
            if dropped:
                self._mark_work(session, [load_balancer_id])
            return dropped

    @classmethod
    def _drop(cls, session: Any, key: str, request: str) -> bool:
        """Forget a pending change. False if it is not the pending one."""
        row = session.get(models.LoadBalancer, key) or session.get(
            models.Tombstone, key)
        if row is None or row.pending is None or (
                json.loads(row.pending)['request'] != request):
            return False
        row.pending = None
        if isinstance(row, models.LoadBalancer):
            if row.generation == 0:
                cls._reserve(session, key, [])
                session.delete(row)
            else:
                cls._reserve(session, key, [rows.document(row)])
        return True

    @staticmethod
    def _forget_requests(session: Any, now: float) -> None:
        for table in (models.AnsweredRequest, models.CanceledRequest):
            session.query(table).filter(table.at < now - REMEMBER_S).delete()


def _name(change: changes.Change) -> str | None:
    """Whose change it is: a load balancer, or a pool of one."""
    return change.get('load_balancer_id') or change.get('pool_id')


def _pending_text(pending: dict[str, Any], expected: str | None) -> str:
    """:param expected: the document's text, which is made once."""
    rest = json.dumps(pending, sort_keys=True)
    return f'{rest[:-1]}, "expected": {expected or "null"}}}'


# Statements that are made once, see base.py.

_KEY: Any = sa.bindparam('key')
_PENDING = sa.update(_BALANCERS).where(_BALANCERS.c.id == _KEY).values(
    pending=sa.bindparam('new_pending'))
_EXPECTED = sa.update(_BALANCERS).where(_BALANCERS.c.id == _KEY).values(
    document=sa.bindparam('new_document'))
# A member and a monitor name their pool alone.
_OWNER: Any = sa.func.coalesce(
    sa.bindparam('key', type_=sa.String()), sa.select(
        _POOLS.c.load_balancer_id).where(
            _POOLS.c.id == sa.bindparam('pool', type_=sa.String())
    ).scalar_subquery())

# The document of the load balancer that a change is of.
_TEXT = sa.select(_BALANCERS.c.document).where(_BALANCERS.c.id == _OWNER)


@functools.cache
def _remembered(dialect: str) -> Any:
    """What became of a request, what time it is, and the load balancer that
    the request is about, if it is there."""
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
