# SPDX-License-Identifier: Apache-2.0
"""The work queue: load balancers that somebody has to look at.

Whatever changes something about a load balancer marks it in the same
transaction (base.py). Any controller claims what is due, looks at it as far
as it can without waiting for nodes, and finishes it. A claim expires after
seconds, so that a controller which was killed delays its items by no more.
A mark that comes meanwhile raises the version, and the item stays.

The transactions that claim and finish compare and set: two that claim one
item at once have one winner.
"""

from collections.abc import Iterable
import dataclasses
import functools
from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import leases
from octavia_xdp_provider.controller.store import models

# Seconds after which an item is looked at again at the latest. One that is
# due much later was marked before the database's clock was set back.
LATER_MAX_S = 600.0

# Statements about a table cost less than those about a class.
_WORK = models.Work.__table__


@dataclasses.dataclass(frozen=True)
class Item:
    """A claimed item. ``failures``: how often in a row it was not finished,
    and was to be looked at again. ``owner``: who has claimed it."""

    load_balancer_id: str
    version: int
    failures: int
    owner: str = ''


class WorkQueue(base.Base):
    """Queries about the work queue."""

    @base.retried
    def mark(self, load_balancer_ids: Iterable[str],
             delay_s: float = 0.0) -> None:
        """Have somebody look at load balancers. Also unknown ones."""
        with self._write() as session:
            self._mark_work(session, load_balancer_ids, delay_s)

    @base.retried
    def mark_all(self) -> None:
        """Have somebody look at every load balancer: after the options of
        a controller have changed, say."""
        with self._write() as session:
            self._mark_selected(session, sa.select(
                models.LoadBalancer.id).where(
                    models.LoadBalancer.id.is_not(None)))

    def claim(self, owner: str, limit: int, lease_s: float,
              ids: Iterable[str] = ()) -> list[Item]:
        """Claim items that are due, the longest waiting first.

        :param lease_s: seconds after which others may claim them.
        :param ids: load balancers whose time has come whatever the queue
            says, if they are in it: these are claimed, and no others.
        """
        some = sorted(ids)[:limit]
        if limit <= 0 or not (some or self._any_due(lease_s)):
            return []
        return self._claim(owner, limit, lease_s, some)

    def _any_due(self, lease_s: float) -> bool:
        # By far the most frequent answer is no, and needs no writer.
        with self._reading_rows() as rows:
            return bool(self._find(rows, lease_s, 1))

    @classmethod
    def _find(cls, rows: Any, lease_s: float, limit: int,
              ids: Iterable[str] = ()) -> list[Any]:
        some = list(ids)
        if some:
            return list(rows.execute(*cls._timed(rows, _naming, {
                'lease_s': lease_s, 'ids': some})))
        return list(rows.execute(*cls._timed(rows, _finding, {
            'lease_s': lease_s, 'limit': limit})))

    @base.retried
    def _claim(self, owner: str, limit: int, lease_s: float, ids: list[str]
               ) -> list[Item]:
        claimed = []
        with self._writing() as rows:
            for key, version, failures, before in self._find(
                    rows, lease_s, limit, ids):
                found = rows.execute(*self._timed(rows, _claiming, {
                    'lease_s': lease_s, 'owner': owner, 'key': key,
                    'seen': version}))
                if found.rowcount:
                    claimed.append(Item(key, version, failures, owner))
                    if before is not None:
                        self._doubt_sent(rows, key)
        return claimed

    @base.retried
    def renew(self, owner: str, load_balancer_ids: Iterable[str],
              lease_s: float) -> None:
        """Claim items that are worked on for longer."""
        with self._writing() as session:
            until = self._now(session) + lease_s
            for ids in base.chunks(load_balancer_ids):
                session.execute(sa.update(models.Work).where(
                    models.Work.load_balancer_id.in_(ids),
                    models.Work.claimed_by == owner).values(
                        claimed_until=until))

    def is_claimed_by(self, owner: str, load_balancer_id: str) -> bool:
        """Whether the claim has not expired, nor has anybody taken it."""
        with self._reading_rows() as rows:
            return rows.execute(sa.select(_WORK.c.version).where(
                _WORK.c.load_balancer_id == load_balancer_id,
                _WORK.c.claimed_by == owner,
                _WORK.c.claimed_until > self._clock(rows))
            ).first() is not None

    @base.retried
    def finish(self, item: Item, owner: str, again_in_s: float | None = None
               ) -> bool:
        """Release a claimed item. It goes, unless it was marked meanwhile.

        :param again_in_s: it is due again after so many seconds.
        :returns: False if it was marked meanwhile. What another owner has
            taken over is that one's to finish.
        """
        values: dict[str, Any] = {
            'key': item.load_balancer_id, 'owner': owner,
            'seen': item.version}
        with self._writing() as rows:
            if again_in_s is None:
                done = forget(rows, item, owner)
                failures = 0
            else:
                failures = item.failures + 1
                done = bool(rows.execute(_DEFERRING, {
                    **values, 'failures_then': failures,
                    'due_then': self._now(rows) + min(
                        again_in_s, LATER_MAX_S)}).rowcount)
            if done:
                return True
            del values['seen']
            return not rows.execute(_RELEASING, {
                **values, 'failures_then': failures}).rowcount

    @base.retried
    def release(self, owner: str) -> None:
        """Let others have what this controller has claimed: it stops."""
        with self._write() as session:
            session.execute(sa.update(models.Work).where(
                models.Work.claimed_by == owner).values(
                    claimed_by=None, claimed_until=None))

    def waiting(self) -> tuple[int, float]:
        """How many items are due, and for how many seconds the first."""
        with self._reading_rows() as session:
            number, first, now = session.execute(*self._timed(
                session, _waiting, {})).one()
            return int(number), now - first if number else 0.0

    def marked(self, load_balancer_ids: Iterable[str]) -> set[str]:
        """Which of these load balancers are in the queue."""
        found: set[str] = set()
        with self._reading_rows() as session:
            for ids in base.chunks(load_balancer_ids):
                found.update(session.scalars(sa.select(
                    models.Work.load_balancer_id).where(
                        models.Work.load_balancer_id.in_(ids))))
        return found


def forget(rows: Any, item: Item, owner: str) -> bool:
    """Finish a claimed item, for which nothing is left to be done, within a
    transaction. False: it was marked meanwhile, or somebody has taken it."""
    return bool(rows.execute(_FORGETTING, {
        'key': item.load_balancer_id, 'owner': owner,
        'seen': item.version}).rowcount)


# Statements that are made once, see base.py.

def _unclaimed(now: Any, lease_s: Any) -> Any:
    """Also a claim that ends later than any can: the clock was set back."""
    until = _WORK.c.claimed_until
    return (until.is_(None) | (until < now)
            | (until > leases.latest_end(now, lease_s)))


@functools.cache
def _finding(dialect: str) -> Any:
    """What is due."""
    now, due_at = base.clock(dialect), _WORK.c.due_at
    return _unclaimed_items(now).where(
        (due_at <= now) | (due_at > now + 2 * LATER_MAX_S)).order_by(
            due_at).limit(sa.bindparam('limit', type_=sa.Integer()))


@functools.cache
def _waiting(dialect: str) -> Any:
    now = base.clock(dialect)
    return sa.select(
        sa.func.count(), sa.func.min(_WORK.c.due_at), now).where(
            _WORK.c.due_at <= now)


@functools.cache
def _naming(dialect: str) -> Any:
    """What there is of these load balancers."""
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
_MINE = (_WORK.c.load_balancer_id == sa.bindparam('key'),
         _WORK.c.claimed_by == sa.bindparam('owner'))
_UNMARKED = (*_MINE, _WORK.c.version == sa.bindparam('seen'))
_RELEASED = {'claimed_by': sa.null(), 'claimed_until': sa.null(),
             'failures': sa.bindparam('failures_then')}
_FORGETTING = sa.delete(_WORK).where(*_UNMARKED)
_DEFERRING = sa.update(_WORK).where(*_UNMARKED).values(
    due_at=sa.bindparam('due_then'), **_RELEASED)
_RELEASING = sa.update(_WORK).where(*_MINE).values(_RELEASED)
