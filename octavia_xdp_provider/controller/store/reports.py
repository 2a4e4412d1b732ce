# SPDX-License-Identifier: Apache-2.0
"""The actual state of nodes, as they report it.

A node numbers its reports: an *epoch* begins with report 1 and the complete
state, in as many reports as needed; later ones contain changes. Report n is
accepted once, after n - 1. So lost, duplicated or delayed messages do no
harm: the node repeats a report until it is answered, and begins a new epoch
if the controller asks for one.

A node only writes rows of its own placements.
"""

from collections.abc import Iterable
import functools
import json
from typing import Any
from typing import cast
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import status
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import histories
from octavia_xdp_provider.controller.store import marks
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows as stored_rows
from octavia_xdp_provider.controller.store import tier_counters


class Taken(NamedTuple):
    """The result of a report.

    ``touched``: ids of load balancers whose state has changed. ``is_new``:
    whether it is the node's first report. ``all_marked``: whether all load
    balancers on the node were marked, because the node's own state changed.
    """

    answer: messages.ReportAnswer
    touched: set[str]
    is_new: bool = False
    all_marked: bool = False


_NODES = models.Node.__table__
_PLACEMENTS = models.Placement.__table__

_NOTHING: dict[str, Any] = {'synced_generation': 0, 'error': None,
                            'members': None, 'announced': None}


class Reports(base.Queries):
    """Stores reports."""

    @base.retried
    def take(self, host: str, epoch: int, seq: int, report: messages.Report,
             delay_s: float = 0.0) -> Taken:
        """Store a report, if it is the next one.

        :param delay_s: seconds until changed load balancers are due in the
            work queue; meanwhile they are left to the caller.
        :raises Refused: the node is not registered.
        """
        with self._database.write_rows() as rows:
            row = rows.execute(_NODE, {'host': host}).first()
            if row is None:
                raise _unregistered(host)
            last = (row.report_epoch, row.report_seq)
            if (epoch, seq) == last:
                return Taken(_answer(True, last), set())
            begins = epoch > last[0] and seq == 1
            if not (begins or (epoch, seq - 1) == last):
                return Taken(_answer(False, last), set())
            state = row.state if report['state'] is None else json.dumps(
                report['state'], sort_keys=True)
            # Another controller may have accepted one meanwhile.
            if not rows.execute(*base.timed(rows, _taking, {
                    'key': host, 'epoch': epoch, 'seq': seq, 'new': state,
                    'last_epoch': last[0], 'last_seq': last[1],
                    'all_reported': report['complete']})).rowcount:
                return Taken(_answer(False, last), set())
            touched = _take_held(rows, host, epoch, report)
            if report['complete']:
                # Later reports of the epoch list removed load balancers.
                if begins or not row.complete:
                    touched |= _forget_placements(rows, host, epoch)
                if row.leaving:
                    touched |= _confirm_gone(rows, host, report['as_of'])
            if report['counters']:
                with orm.Session(rows) as session:
                    _count(session, host, row.role, report['counters'])
                    session.commit()  # flushes; the transaction goes on
            marks.mark(rows, touched, delay_s)
            all_marked = report['state'] is not None and _mark_if_it_counts(
                rows, host, row.state, cast(dict[str, Any], report['state']))
        return Taken(_answer(True, (epoch, seq)), touched, not row.last_seen,
                     all_marked)


def _mark_if_it_counts(session: base.Session, host: str, before: str,
                       state: dict[str, Any]) -> bool:
    """Mark all load balancers on a node if its state affects statuses.

    :param before: the stored state, JSON.
    """
    counts = (_counting(state) != _counting(json.loads(before)))
    if counts:
        marks.mark_selected(session, sa.select(
            models.Placement.load_balancer_id).where(
                models.Placement.host == host,
                models.Placement.removed_generation.is_(None)))
    return counts


def _take_held(rows: sa.Connection, host: str, epoch: int,
               report: messages.Report) -> set[str]:
    touched = set()
    held, history = report['held'], histories.to_store(rows, report)
    for ids in base.chunks((*held, *report['gone'])):
        changed = []
        for row in rows.execute(_REPORTED, {'host': host, 'ids': ids}):
            entry = held.get(row.load_balancer_id)
            values = _NOTHING if entry is None else {
                'synced_generation': entry['generation'],
                'error': entry['error'],
                'members': json.dumps(entry['members'], sort_keys=True),
                'announced': entry['announced']}
            if _differs(row, values):
                touched.add(row.load_balancer_id)
            elif row.report_epoch == epoch and not (
                    row.has_history or row.load_balancer_id in history):
                continue
            changed.append({'balancer': row.load_balancer_id,
                            'node': host, 'in_epoch': epoch,
                            'new_history': history.get(
                                row.load_balancer_id), **{
                                f'new_{name}': value
                                for name, value in values.items()}})
        if changed:
            rows.execute(_REPORTING, changed)
    return touched


def _forget_placements(rows: sa.Connection, host: str, epoch: int) -> set[str]:
    """Reset placements that a complete epoch has not reported."""
    unreported = (_PLACEMENTS.c.host == host,
                  _PLACEMENTS.c.report_epoch != epoch,
                  _PLACEMENTS.c.synced_generation != 0)
    ids = set(rows.execute(sa.select(
        _PLACEMENTS.c.load_balancer_id).where(*unreported)).scalars())
    if ids:
        rows.execute(sa.update(_PLACEMENTS).where(*unreported).values(
            history=None, **_NOTHING))
    return ids


def _confirm_gone(rows: sa.Connection, host: str, as_of: int) -> set[str]:
    """Delete placements that the node was to remove and has removed."""
    gone = set(rows.execute(_LEFT, {'host': host, 'as_of': as_of}).scalars())
    _confirm_removed(rows, host, gone, as_of)
    return gone


def _confirm_removed(session: base.Session, host: str, ids: Iterable[str],
                     as_of: int) -> None:
    """Delete placements, except those that another controller has just
    restored, so that they are no longer leaving."""
    for some in base.chunks(ids):
        session.execute(sa.delete(_PLACEMENTS).where(
            _PLACEMENTS.c.host == host,
            _PLACEMENTS.c.load_balancer_id.in_(some),
            _PLACEMENTS.c.removed_generation <= as_of))


def _count(session: Any, host: str, role: str,
           counters: dict[str, dict[str, messages.Counters]]) -> None:
    if not counters:
        return
    stored = {row.listener_id: row for row in session.query(
        models.ListenerCounter).filter(
            models.ListenerCounter.host == host,
            models.ListenerCounter.load_balancer_id.in_(list(counters)))}
    for load_balancer_id, listeners in counters.items():
        document = _document(session, host, load_balancer_id) if (
            listeners.keys() - stored.keys()) else None
        for key, now in listeners.items():
            row = stored.get(key)
            if row is None:
                # A node cannot count for listeners that it does not have.
                if document is None or key not in document['listeners']:
                    continue
                row = tier_counters.row_of(
                    load_balancer_id, key, host,
                    tier_counters.counts(document, key, role))
                session.add(row)
            elif row.load_balancer_id != load_balancer_id:
                continue
            _add(row, cast(dict[str, int], now))


def _counting(state: dict[str, Any]) -> tuple[bool, bool]:
    """Return the part of a node's state that affects statuses."""
    return bool(status.problems(state)), status.knows_no_health(state)


def _unregistered(host: str) -> errors.Refused:
    # It may have been deleted a moment ago, and must not reappear by itself.
    return errors.Refused('host', f'{host} is not registered',
                          'say "octavia-xdp-manage node create" for it')


def _answer(taken: bool, last: tuple[int, int]) -> messages.ReportAnswer:
    return {'taken': taken, 'epoch': last[0], 'seq': last[1]}


def _differs(row: Any, values: dict[str, Any]) -> bool:
    return any(getattr(row, name) != value for name, value in values.items())


def _document(session: Any, host: str, load_balancer_id: str
              ) -> spec.Document | None:
    """Return the document of a load balancer if it is on the node."""
    if session.get(models.Placement, (load_balancer_id, host)) is None:
        return None
    row = session.get(models.LoadBalancer, load_balancer_id)
    return stored_rows.document(row) if row else None


def _add(row: Any, now: dict[str, int]) -> None:
    """Add reported counters. A counter that has decreased was reset; one that
    is not reported has not changed."""
    row.active = now.get('active', 0)
    for name in now.keys() - {'active'}:
        last = getattr(row, f'last_{name}')
        grown = now[name] - (last if now[name] >= last else 0)
        setattr(row, f'last_{name}', now[name])
        setattr(row, f'total_{name}', min(
            getattr(row, f'total_{name}') + grown, tier_counters.TOTAL_MAX))


# Statements that are built once, see base.py.

_HOST: Any = sa.bindparam('host')
_NODE = sa.select(_NODES, sa.exists().where(
    _PLACEMENTS.c.host == _HOST,
    _PLACEMENTS.c.removed_generation.is_not(None)).label('leaving')).where(
        _NODES.c.host == _HOST)
_REPORTED = sa.select(
    _PLACEMENTS.c.load_balancer_id, _PLACEMENTS.c.report_epoch,
    _PLACEMENTS.c.history.is_not(None).label('has_history'),
    *(_PLACEMENTS.c[name] for name in _NOTHING)).where(
        _PLACEMENTS.c.host == _HOST,
        _PLACEMENTS.c.load_balancer_id.in_(
            sa.bindparam('ids', expanding=True)))
_REPORTING = sa.update(_PLACEMENTS).where(
    _PLACEMENTS.c.load_balancer_id == sa.bindparam('balancer'),
    _PLACEMENTS.c.host == sa.bindparam('node')).values(
        report_epoch=sa.bindparam('in_epoch'),
        history=sa.bindparam('new_history'),
        **{name: sa.bindparam(f'new_{name}') for name in _NOTHING})
_LEFT = sa.select(_PLACEMENTS.c.load_balancer_id).where(
    _PLACEMENTS.c.host == _HOST,
    _PLACEMENTS.c.removed_generation <= sa.bindparam('as_of'),
    _PLACEMENTS.c.synced_generation == 0)


@functools.cache
def _taking(dialect: str) -> Any:
    """Store the next report, unless another controller has."""
    return sa.update(_NODES).where(
        _NODES.c.host == sa.bindparam('key'),
        _NODES.c.report_epoch == sa.bindparam('last_epoch'),
        _NODES.c.report_seq == sa.bindparam('last_seq')).values(
            report_epoch=sa.bindparam('epoch'),
            report_seq=sa.bindparam('seq'), state=sa.bindparam('new'),
            complete=sa.bindparam('all_reported'),
            last_seen=base.clock(dialect))
