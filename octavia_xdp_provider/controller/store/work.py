# SPDX-License-Identifier: Apache-2.0
"""The work queue: load balancers that a controller has to advance.

Each change of a load balancer marks it in the same transaction (marks.py). Any
controller claims due items, advances them as far as possible without waiting
for nodes, and finishes them. A claim expires after seconds, which limits the
delay after a controller was killed. A mark during a claim raises the item's
version, so that it stays.

Claiming and finishing compare and set: of two transactions that claim an item
at once, one succeeds.
"""

from collections.abc import Iterable
import dataclasses
import functools
from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import leases
from octavia_xdp_provider.controller.store import marks
from octavia_xdp_provider.controller.store import models

# Longest delay of an item in seconds. An item that is due much later was
# marked before the database's clock was set back.
LATER_MAX_S = 600.0

# Statements on a table cost less than those on a class.
_WORK = models.Work.__table__


@dataclasses.dataclass(frozen=True)
class Item:
    """A claimed item. ``failures``: number of consecutive steps that did not
    finish it. ``owner``: the claiming process."""

    load_balancer_id: str
    version: int
    failures: int
    owner: str = ''


class WorkQueue(base.Queries):
    """Queries about the work queue."""

    @base.retried
    def mark(self, load_balancer_ids: Iterable[str],
             delay_s: float = 0.0) -> None:
        """Mark load balancers, including unknown ones."""
        with self._database.write() as session:
            marks.mark(session, load_balancer_ids, delay_s)

    @base.retried
    def mark_all(self) -> None:
        """Mark all load balancers, for example after a change of options."""
        with self._database.write() as session:
            marks.mark_selected(session, sa.select(
                models.LoadBalancer.id).where(
                    models.LoadBalancer.id.is_not(None)))

    def claim(self, owner: str, limit: int, lease_s: float,
              ids: Iterable[str] = ()) -> list[Item]:
        """Claim items that are due, the longest waiting first.

        :param lease_s: seconds after which others may claim them.
        :param ids: if any, only these load balancers are claimed, even if the
            queue has them due later.
        """
        requested = sorted(ids)[:limit]
        if limit <= 0 or not (requested or self._any_due(lease_s)):
            return []
        return self._claim(owner, limit, lease_s, requested)

    def _any_due(self, lease_s: float) -> bool:
        # The most frequent answer by far is no, which needs no writer.
        with self._database.read_rows() as rows:
            return bool(_find(rows, lease_s, 1))

    @base.retried
    def _claim(self, owner: str, limit: int, lease_s: float, ids: list[str]
               ) -> list[Item]:
        claimed = []
        with self._database.write_rows() as rows:
            for key, version, failures, before in _find(
                    rows, lease_s, limit, ids):
                updated = rows.execute(*base.timed(rows, _claiming, {
                    'lease_s': lease_s, 'owner': owner, 'key': key,
                    'seen': version}))
                if updated.rowcount:
                    claimed.append(Item(key, version, failures, owner))
                    if before is not None:
                        doubt_sent(rows, key)
        return claimed

    @base.retried
    def renew(self, owner: str, load_balancer_ids: Iterable[str],
              lease_s: float) -> None:
        """Extend the claims of items in progress."""
        with self._database.write_rows() as session:
            until = base.now(session) + lease_s
            for ids in base.chunks(load_balancer_ids):
                session.execute(sa.update(models.Work).where(
                    models.Work.load_balancer_id.in_(ids),
                    models.Work.claimed_by == owner).values(
                        claimed_until=until))

    def is_claimed_by(self, owner: str, load_balancer_id: str) -> bool:
        """Return whether an owner's claim is still valid."""
        with self._database.read_rows() as rows:
            return rows.execute(sa.select(_WORK.c.version).where(
                _WORK.c.load_balancer_id == load_balancer_id,
                _WORK.c.claimed_by == owner,
                _WORK.c.claimed_until > base.now_expression(rows))
            ).first() is not None

    @base.retried
    def finish(self, item: Item, owner: str, again_in_s: float | None = None
               ) -> bool:
        """Release a claimed item, and remove it unless it was marked since.

        :param again_in_s: keep it, due again after so many seconds.
        :returns: False if it was marked meanwhile. An item that another owner
            has taken over is left to that one.
        """
        values: dict[str, Any] = {'key': item.load_balancer_id, 'owner': owner,
                                  'seen': item.version}
        with self._database.write_rows() as rows:
            if again_in_s is None:
                done = forget(rows, item, owner)
                failures = 0
            else:
                failures = item.failures + 1
                done = bool(rows.execute(_DEFERRING, {
                    **values, 'failures_then': failures,
                    'due_then': base.now(rows) + min(
                        again_in_s, LATER_MAX_S)}).rowcount)
            if done:
                return True
            del values['seen']
            return not rows.execute(_RELEASING, {
                **values, 'failures_then': failures}).rowcount

    @base.retried
    def release(self, owner: str) -> None:
        """Release all claims of a controller that stops."""
        with self._database.write() as session:
            session.execute(sa.update(models.Work).where(
                models.Work.claimed_by == owner).values(
                    claimed_by=None, claimed_until=None))

    def waiting(self) -> tuple[int, float]:
        """Return the number of due items, and the age of the first in seconds.
        """
        with self._database.read_rows() as session:
            number, first, now = session.execute(*base.timed(
                session, _waiting, {})).one()
            return int(number), now - first if number else 0.0

    def marked(self, load_balancer_ids: Iterable[str]) -> set[str]:
        """Return those of the load balancers that are in the queue."""
        queued: set[str] = set()
        with self._database.read_rows() as session:
            for ids in base.chunks(load_balancer_ids):
                queued.update(session.scalars(sa.select(
                    models.Work.load_balancer_id).where(
                        models.Work.load_balancer_id.in_(ids))))
        return queued


def _find(rows: sa.Connection, lease_s: float, limit: int,
          ids: Iterable[str] = ()) -> list[Any]:
    requested = list(ids)
    if requested:
        return list(rows.execute(*base.timed(rows, _naming, {
            'lease_s': lease_s, 'ids': requested})))
    return list(rows.execute(*base.timed(rows, _finding, {
        'lease_s': lease_s, 'limit': limit})))


def forget(rows: sa.Connection, item: Item, owner: str) -> bool:
    """Remove a claimed item within a transaction. Return False if it was
    marked meanwhile or taken over."""
    return bool(rows.execute(_FORGETTING, {
        'key': item.load_balancer_id, 'owner': owner,
        'seen': item.version}).rowcount)


def doubt_sent(session: base.Session, load_balancer_id: str) -> None:
    """Have all statuses sent to Octavia again, as it is not known which it
    has.

    Their sender died before it stored them, or got no answer.
    """
    table = models.LoadBalancer.__table__
    session.execute(sa.update(table).where(
        table.c.id == load_balancer_id).values(sent_statuses=None))


# Statements that are built once, see base.py.


def _unclaimed(now: Any, lease_s: Any) -> Any:
    """Include claims that end later than possible, as the clock was set back.
    """
    until = _WORK.c.claimed_until
    return (until.is_(None) | (until < now)
            | (until > leases.latest_end(now, lease_s)))


@functools.cache
def _finding(dialect: str) -> Any:
    """Select due items."""
    now, due_at = base.clock(dialect), _WORK.c.due_at
    return _unclaimed_items(now).where(
        (due_at <= now) | (due_at > now + 2 * LATER_MAX_S)).order_by(
            due_at).limit(sa.bindparam('limit', type_=sa.Integer()))


@functools.cache
def _waiting(dialect: str) -> Any:
    now = base.clock(dialect)
    return sa.select(sa.func.count(), sa.func.min(_WORK.c.due_at), now).where(
        _WORK.c.due_at <= now)


@functools.cache
def _naming(dialect: str) -> Any:
    """Select the items of given load balancers."""
    return _unclaimed_items(base.clock(dialect)).where(
        _WORK.c.load_balancer_id.in_(sa.bindparam('ids', expanding=True)))


def _unclaimed_items(now: Any) -> Any:
    return sa.select(
        _WORK.c.load_balancer_id, _WORK.c.version, _WORK.c.failures,
        _WORK.c.claimed_by).where(_unclaimed(now, _LEASE))


@functools.cache
def _claiming(dialect: str) -> Any:
    now = base.clock(dialect)
    return sa.update(_WORK).where(
        _WORK.c.load_balancer_id == sa.bindparam('key'),
        _WORK.c.version == sa.bindparam('seen'),
        _unclaimed(now, _LEASE)).values(
            claimed_by=sa.bindparam('owner'), claimed_until=now + _LEASE)


_LEASE: Any = sa.bindparam('lease_s', type_=sa.Double())
_CLAIMED = (_WORK.c.load_balancer_id == sa.bindparam('key'),
         _WORK.c.claimed_by == sa.bindparam('owner'))
_UNMARKED = (*_CLAIMED, _WORK.c.version == sa.bindparam('seen'))
_RELEASED = {'claimed_by': sa.null(), 'claimed_until': sa.null(),
             'failures': sa.bindparam('failures_then')}
_FORGETTING = sa.delete(_WORK).where(*_UNMARKED)
_DEFERRING = sa.update(_WORK).where(*_UNMARKED).values(
    due_at=sa.bindparam('due_then'), **_RELEASED)
_RELEASING = sa.update(_WORK).where(*_CLAIMED).values(_RELEASED)
