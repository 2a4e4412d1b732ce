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
    and was to be looked at again."""

    load_balancer_id: str
    version: int
    failures: int


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

    def claim(self, owner: str, limit: int, lease_s: float) -> list[Item]:
        """Claim items that are due, the longest waiting first.

        :param lease_s: seconds after which others may claim them.
        """
        if limit <= 0 or not self._any_due(lease_s):
            return []
        return self._claim(owner, limit, lease_s)

    def _any_due(self, lease_s: float) -> bool:
        # By far the most frequent answer is no, and needs no writer.
        with self._read() as session:
            return bool(self._due(session, self._clock(session), lease_s, 1))

    @staticmethod
    def _due(session: Any, now: Any, lease_s: float, limit: int
             ) -> list[Any]:
        due_at = models.Work.due_at
        return list(session.execute(
            sa.select(models.Work.load_balancer_id, models.Work.version,
                      models.Work.failures, models.Work.claimed_by).where(
                          (due_at <= now) | (due_at > now + 2 * LATER_MAX_S),
                          _unclaimed(now, lease_s))
            .order_by(due_at).limit(limit)))

    @base.retried
    def _claim(self, owner: str, limit: int, lease_s: float) -> list[Item]:
        claimed = []
        with self._write() as session:
            now = self._clock(session)
            for key, version, failures, before in self._due(
                    session, now, lease_s, limit):
                found = session.execute(sa.update(_WORK).where(
                    _WORK.c.load_balancer_id == key,
                    _WORK.c.version == version,
                    _unclaimed(now, lease_s)).values(
                        claimed_by=owner, claimed_until=now + lease_s))
                if found.rowcount:
                    claimed.append(Item(key, version, failures))
                    if before is not None:
                        self._doubt_told(session, key)
        return claimed

    @base.retried
    def renew(self, owner: str, load_balancer_ids: Iterable[str],
              lease_s: float) -> None:
        """Claim items that are worked on for longer."""
        with self._write() as session:
            until = self._now(session) + lease_s
            for ids in base.chunks(load_balancer_ids):
                session.execute(sa.update(models.Work).where(
                    models.Work.load_balancer_id.in_(ids),
                    models.Work.claimed_by == owner).values(
                        claimed_until=until))

    def is_claimed_by(self, owner: str, load_balancer_id: str) -> bool:
        """Whether the claim has not expired, nor has anybody taken it."""
        with self._read() as session:
            return session.execute(sa.select(_WORK.c.version).where(
                _WORK.c.load_balancer_id == load_balancer_id,
                _WORK.c.claimed_by == owner,
                _WORK.c.claimed_until > self._clock(session))
            ).first() is not None

    @base.retried
    def finish(self, item: Item, owner: str, again_in_s: float | None = None
               ) -> bool:
        """Release a claimed item. It goes, unless it was marked meanwhile.

        :param again_in_s: it is due again after so many seconds.
        :returns: False if it was marked meanwhile.
        """
        mine = (_WORK.c.load_balancer_id == item.load_balancer_id,
                _WORK.c.claimed_by == owner)
        unmarked = _WORK.c.version == item.version
        released = {
            'claimed_by': None, 'claimed_until': None,
            'failures': 0 if again_in_s is None else item.failures + 1}
        with self._write() as session:
            done: Any
            if again_in_s is None:
                done = sa.delete(_WORK).where(*mine, unmarked)
            else:
                done = sa.update(_WORK).where(*mine, unmarked).values(
                    due_at=self._clock(session) + min(
                        again_in_s, LATER_MAX_S), **released)
            if session.execute(done).rowcount:
                return True
            session.execute(sa.update(_WORK).where(*mine).values(released))
            return False

    @base.retried
    def release(self, owner: str) -> None:
        """Let others have what this controller has claimed: it stops."""
        with self._write() as session:
            session.execute(sa.update(models.Work).where(
                models.Work.claimed_by == owner).values(
                    claimed_by=None, claimed_until=None))

    def waiting(self) -> tuple[int, float]:
        """How many items are due, and for how many seconds the first."""
        with self._read() as session:
            now = self._now(session)
            number, first = session.execute(sa.select(
                sa.func.count(), sa.func.min(models.Work.due_at)).where(
                    models.Work.due_at <= now)).one()
            return int(number), now - first if number else 0.0

    def marked(self, load_balancer_ids: Iterable[str]) -> set[str]:
        """Which of these load balancers are in the queue."""
        found: set[str] = set()
        with self._read() as session:
            for ids in base.chunks(load_balancer_ids):
                found.update(session.scalars(sa.select(
                    models.Work.load_balancer_id).where(
                        models.Work.load_balancer_id.in_(ids))))
        return found


def _unclaimed(now: Any, lease_s: float) -> Any:
    """Also a claim that ends later than any can: the clock was set back."""
    until = models.Work.claimed_until
    return (until.is_(None) | (until < now)
            | (until > leases.latest_end(now, lease_s)))
