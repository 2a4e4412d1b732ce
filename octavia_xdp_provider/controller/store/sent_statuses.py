# SPDX-License-Identifier: Apache-2.0
"""Statuses that were sent to Octavia, and comparisons with Octavia."""

from collections.abc import Iterable
import dataclasses
import json
from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import marks
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import work
from octavia_xdp_provider.process import ages

# Replaces the value of a comparison: since then ``updated_at`` has changed
# only because of statuses that were sent.
SENT = 'sent'


_BALANCERS = models.LoadBalancer.__table__


@dataclasses.dataclass(frozen=True)
class Known:
    """A load balancer, for the comparison with Octavia's list."""

    id: str
    generation: int
    deleted: bool
    pending: bool
    changed_at: float
    listed_at: str | None
    compared_at: str | None


class SentStatuses(base.Queries):
    """Queries about statuses that were sent to Octavia."""

    @base.retried
    def note(self, load_balancer_id: str, generation: int, *,
             statuses: dict[spec.Object, str] | None = None,
             active: bool = False, deleted: bool = False,
             failed: bool = False, item: work.Item | None = None) -> bool:
        """Store that statuses were sent to Octavia.

        :param generation: of the document that they were derived from.
        :param statuses: (kind, id) → operating status, of all objects.
        :param active: ACTIVE was sent for objects that it made pending.
        :param deleted: DELETED was sent for objects that it removed.
        :param failed: whether no node applied it in time.
        :param item: of the work queue, to be finished along with this.
        :returns: whether it was finished, see WorkQueue.finish.
        """
        with self._database.write_rows() as rows:
            row = rows.execute(_SENT_OF, {'key': load_balancer_id}).first()
            if row is None:
                return False
            values: dict[str, Any] = {}
            if statuses is not None:
                values['sent_statuses'] = json.dumps({
                    f'{kind} {key}': status
                    for (kind, key), status in sorted(statuses.items())})
            if active:
                values['unconfirmed'] = _after(row.unconfirmed or '[]',
                                               generation)
            if deleted:
                values['removed'] = _after(row.removed, generation)
            if failed:
                values['failed_generation'] = max(row.failed_generation,
                                                  generation)
            elif active and deleted:
                values['sent_generation'] = max(row.sent_generation,
                                                generation)
            if row.compared_at is not None or row.listed_at is None:
                values['compared_at'] = SENT
            if values:
                rows.execute(sa.update(_BALANCERS).where(
                    _BALANCERS.c.id == load_balancer_id).values(values))
            return item is not None and work.forget(rows, item, item.owner)

    @base.retried
    def doubt(self, load_balancer_id: str) -> None:
        """Store that statuses were sent to Octavia without an answer."""
        with self._database.write() as session:
            work.doubt_sent(session, load_balancer_id)

    @base.retried
    def note_compared(self, load_balancer_id: str, generation: int,
                      listed_at: str | None,
                      pending: Iterable[spec.Object] = (),
                      removed: Iterable[spec.Object] = ()) -> None:
        """Store that the document was compared with Octavia's.

        Does nothing if there was a change meanwhile.

        :param generation: of the document.
        :param listed_at: of the row when the comparison began.
        :param pending: objects for which Octavia waits for ACTIVE.
        :param removed: objects for which it waits for DELETED.
        """
        with self._database.write() as session:
            row = session.get(models.LoadBalancer, load_balancer_id,
                              with_for_update=True)
            if row is None or row.generation != generation or (
                    row.pending is not None):
                return
            row.compared_at = listed_at
            row.unconfirmed = _joined(row.unconfirmed or '[]', pending)
            row.removed = _joined(row.removed, removed)

    def known(self) -> dict[str, Known]:
        """Return all load balancers by id, without their documents."""
        columns = models.LoadBalancer
        with self._database.read_rows() as session:
            return {row.id: Known(
                row.id, row.generation, row.deleted, row.is_pending,
                row.changed_at, row.listed_at, row.compared_at)
                for row in session.execute(sa.select(
                    columns.id, columns.generation, columns.deleted,
                    columns.pending.is_not(None).label('is_pending'),
                    columns.changed_at, columns.listed_at,
                    columns.compared_at))}

    @base.retried
    def note_listed(self, rows: dict[str, str]) -> None:
        """Store ``updated_at`` of Octavia's list, and request comparisons.

        :param rows: id → ``updated_at``.
        """
        with self._database.write() as session:
            for key, updated_at in sorted(rows.items()):
                session.execute(sa.update(models.LoadBalancer).where(
                    models.LoadBalancer.id == key).values(
                        listed_at=updated_at, compared_at=None))
            marks.mark(session, rows)

    @base.retried
    def note_explained(self, rows: dict[str, str]) -> None:
        """Store ``updated_at`` values that sent statuses explain.

        :param rows: id → ``updated_at``.
        """
        if not rows:
            return
        # Octavia's times are whole seconds: many load balancers share one.
        by_time: dict[str, list[str]] = {}
        for key, updated_at in rows.items():
            by_time.setdefault(updated_at, []).append(key)
        with self._database.write_rows() as opened:
            for updated_at, keys in sorted(by_time.items()):
                for ids in base.chunks(keys):
                    opened.execute(_EXPLAINED, {'ids': ids,
                                                'time': updated_at})

    def sent_since(self, load_balancer_ids: Iterable[str]) -> set[str]:
        """Return the load balancers for which statuses were sent to Octavia
        since it listed them."""
        sent: set[str] = set()
        with self._database.read_rows() as session:
            for ids in base.chunks(load_balancer_ids):
                sent.update(session.scalars(sa.select(
                    models.LoadBalancer.id).where(
                        models.LoadBalancer.id.in_(ids),
                        models.LoadBalancer.compared_at == SENT)))
        return sent

    @base.retried
    def bury(self, load_balancer_ids: Iterable[str], deadline_s: float
             ) -> None:
        """Store tombstones for unknown load balancers that Octavia deletes."""
        with self._database.write() as session:
            now = base.now(session)
            ids = sorted(load_balancer_ids)
            for key in ids:
                session.merge(models.Tombstone(
                    load_balancer_id=key, at=now, pending=json.dumps({
                        'request': f'resync {key}', 'change': None,
                        'deadline': now + deadline_s, 'expected': None})))
            marks.mark(session, ids)

    @base.retried
    def note_missing(self, missing: Iterable[str]) -> dict[str, tuple[
            int, float]]:
        """Store that Octavia's list lacks exactly these load balancers.

        :returns: id → (number of consecutive lists without it, seconds since
            the first of them).
        """
        ids = set(missing)
        result = {}
        with self._database.write() as session:
            now = base.now(session)
            for row in session.query(models.Miss).all():
                if row.load_balancer_id not in ids:
                    session.delete(row)
                    continue
                ids.discard(row.load_balancer_id)
                row.number += 1
                result[row.load_balancer_id] = (row.number,
                                                ages.age(row.first_at, now))
            for key in ids:
                session.add(models.Miss(load_balancer_id=key, number=1,
                                        first_at=now))
                result[key] = (1, 0.0)
        return result


# Statements that are built once, see base.py.
_EXPLAINED = sa.update(_BALANCERS).where(
    _BALANCERS.c.id.in_(sa.bindparam('ids', expanding=True)),
    _BALANCERS.c.compared_at == SENT).values(
        listed_at=sa.bindparam('time'), compared_at=sa.bindparam('time'))
_SENT_OF = sa.select(*(_BALANCERS.c[name] for name in (
    'unconfirmed', 'removed', 'failed_generation', 'sent_generation',
    'compared_at', 'listed_at'))).where(
        _BALANCERS.c.id == sa.bindparam('key')).with_for_update()


def _after(text: str, generation: int) -> str:
    return json.dumps([item for item in json.loads(text)
                       if item[2] > generation])


def _joined(text: str, objects: Iterable[spec.Object]) -> str:
    """Add objects with generation 0, which are due independently of nodes."""
    entries = json.loads(text)
    listed = {tuple(item[:2]) for item in entries}
    return json.dumps(entries + [[kind, key, 0] for kind, key
                                 in sorted(set(objects) - listed)])
