# SPDX-License-Identifier: Apache-2.0
"""What nodes have, as they reported it.

A node numbers its reports: an *epoch* begins with report 1 and reports all
that the node has, in as many reports as it takes; later ones report what has
changed. Report n is taken once, after n - 1. A message that was lost, came
twice or late thus changes nothing: the node repeats a report until it is
answered, and begins a new epoch where the controller asks for one.

A node writes rows of its own placements, and no others.
"""

from collections.abc import Iterable
import functools
import json
from typing import Any
from typing import cast
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import messages
from octavia_xdp_provider.controller import status
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import histories
from octavia_xdp_provider.controller.store import models


class Taken(NamedTuple):
    """What became of a report.

    ``touched``: ids of load balancers of which something has changed.
    ``is_new``: whether it is the node's first report. ``all_marked``: whether
    the node's own state has changed so that all that is on it was marked.
    """

    answer: messages.ReportAnswer
    touched: set[str]
    is_new: bool = False
    all_marked: bool = False


# What a column holds: a node that begins its counters anew all the time comes
# that far.
_TOTAL_MAX = 2 ** 63 - 1

_NODES = models.Node.__table__
_PLACEMENTS = models.Placement.__table__

_NOTHING: dict[str, Any] = {'synced_generation': 0, 'error': None,
                            'members': None, 'announced': None}


class Reports(histories.Histories):
    """Stores reports."""

    @base.retried
    def take(self, host: str, epoch: int, seq: int, report: messages.Report,
             delay_s: float = 0.0) -> Taken:
        """Store a report, if it is the next one.

        :param delay_s: seconds for which what has changed is left to the
            caller: nobody else has to look at it before.
        :raises Refused: the node is not registered.
        """
        with self._writing() as rows:
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
            # Another controller may have taken one since.
            if not rows.execute(*self._timed(rows, _taking, {
                    'key': host, 'epoch': epoch, 'seq': seq, 'new': state,
                    'last_epoch': last[0], 'last_seq': last[1],
                    'all_reported': report['complete']})).rowcount:
                return Taken(_answer(False, last), set())
            touched = self._take_held(rows, host, epoch, report)
            if report['complete']:
                # Later reports of the epoch say themselves what is gone.
                if begins or not row.complete:
                    touched |= self._forget_untold(rows, host, epoch)
                if row.leaving:
                    touched |= self._confirm_gone(rows, host,
                                                  report['as_of'])
            if report['counters']:
                with orm.Session(rows) as session:
                    self._count(session, host, report['counters'])
                    session.commit()  # of what it holds
            self._mark_work(rows, touched, delay_s)
            all_marked = report['state'] is not None and (
                self._mark_if_it_counts(rows, host, row.state,
                                        cast(dict[str, Any],
                                             report['state'])))
        return Taken(_answer(True, (epoch, seq)), touched, not row.last_seen,
                     all_marked)

    @classmethod
    def _mark_if_it_counts(cls, session: Any, host: str, before: str,
                           state: dict[str, Any]) -> bool:
        """Have all on a node looked at if its state changes statuses.

        :param before: the state that is stored, JSON.
        """
        counts = (_counting(state) != _counting(json.loads(before)))
        if counts:
            cls._mark_selected(session, sa.select(
                models.Placement.load_balancer_id).where(
                    models.Placement.host == host,
                    models.Placement.removed_generation.is_(None)))
        return counts

    @classmethod
    def _take_held(cls, rows: Any, host: str, epoch: int,
                   report: messages.Report) -> set[str]:
        touched = set()
        held, history = report['held'], cls._to_store(rows, report)
        for ids in base.chunks((*held, *report['gone'])):
            changed = []
            for row in rows.execute(_REPORTED, {'host': host, 'ids': ids}):
                one = held.get(row.load_balancer_id)
                values = _NOTHING if one is None else {
                    'synced_generation': one['generation'],
                    'error': one['error'],
                    'members': json.dumps(one['members'], sort_keys=True),
                    'announced': one['announced']}
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

    @staticmethod
    def _forget_untold(rows: Any, host: str, epoch: int) -> set[str]:
        """All has been reported: the node does not have what was not."""
        untold = (_PLACEMENTS.c.host == host,
                  _PLACEMENTS.c.report_epoch != epoch,
                  _PLACEMENTS.c.synced_generation != 0)
        found = set(rows.execute(sa.select(
            _PLACEMENTS.c.load_balancer_id).where(*untold)).scalars())
        if found:
            rows.execute(sa.update(_PLACEMENTS).where(*untold).values(
                history=None, **_NOTHING))
        return found

    @staticmethod
    def _confirm_gone(rows: Any, host: str, as_of: int) -> set[str]:
        """Forget placements that the node was to give up, and has."""
        gone = set(rows.execute(_LEFT, {
            'host': host, 'as_of': as_of}).scalars())
        Reports._confirm_removed(rows, host, gone, as_of)
        return gone

    @staticmethod
    def _confirm_removed(session: Any, host: str, ids: Iterable[str],
                         as_of: int) -> None:
        """Forget placements, unless another controller has just put one of
        them back: it is not leaving any more."""
        for some in base.chunks(ids):
            session.execute(sa.delete(_PLACEMENTS).where(
                _PLACEMENTS.c.host == host,
                _PLACEMENTS.c.load_balancer_id.in_(some),
                _PLACEMENTS.c.removed_generation <= as_of))

    @staticmethod
    def _count(session: Any, host: str,
               counters: dict[str, dict[str, messages.Counters]]) -> None:
        if not counters:
            return
        known = {row.listener_id: row for row in session.query(
            models.ListenerCounter).filter(
                models.ListenerCounter.host == host,
                models.ListenerCounter.load_balancer_id.in_(
                    list(counters)))}
        for load_balancer_id, listeners in counters.items():
            new = listeners.keys() - known.keys()
            own = _listeners(session, host, load_balancer_id) if new else ()
            for key, now in listeners.items():
                row = known.get(key)
                if row is None:
                    # Nobody counts for a listener of others.
                    if key not in own:
                        continue
                    row = models.ListenerCounter(
                        listener_id=key, host=host, last_bytes=0,
                        last_flows=0, last_drops=0, last_bytes_out=0,
                        total_bytes=0, total_flows=0, total_drops=0,
                        total_bytes_out=0, active=0,
                        load_balancer_id=load_balancer_id)
                    session.add(row)
                elif row.load_balancer_id != load_balancer_id:
                    continue
                _add(row, cast(dict[str, int], now))


def _counting(state: dict[str, Any]) -> tuple[bool, bool]:
    """Of a node's state, what the statuses of load balancers depend on."""
    return bool(status.problems(state)), status.knows_no_health(state)


def _unregistered(host: str) -> errors.Refused:
    # Deleted a moment ago: it must not come back by itself.
    return errors.Refused(
        'host', f'{host} is not registered',
        'say "octavia-xdp-manage node create" for it')


def _answer(taken: bool, last: tuple[int, int]) -> messages.ReportAnswer:
    return {'taken': taken, 'epoch': last[0], 'seq': last[1]}


def _differs(row: Any, values: dict[str, Any]) -> bool:
    return any(getattr(row, name) != value for name, value in values.items())


def _listeners(session: Any, host: str, load_balancer_id: str) -> set[str]:
    """Listeners of a load balancer that is on the node."""
    if session.get(models.Placement, (load_balancer_id, host)) is None:
        return set()
    row = session.get(models.LoadBalancer, load_balancer_id)
    return set(json.loads(row.document)['listeners']) if row else set()


def _add(row: Any, now: dict[str, int]) -> None:
    """A counter that is lower than the last one has started again; one that
    is not reported has not changed."""
    row.active = now.get('active', 0)
    for name in now.keys() - {'active'}:
        last = getattr(row, f'last_{name}')
        grown = now[name] - (last if now[name] >= last else 0)
        setattr(row, f'last_{name}', now[name])
        setattr(row, f'total_{name}', min(
            getattr(row, f'total_{name}') + grown, _TOTAL_MAX))


# Statements that are made once, see base.py.

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
    """Note the next report, unless somebody else has."""
    return sa.update(_NODES).where(
        _NODES.c.host == sa.bindparam('key'),
        _NODES.c.report_epoch == sa.bindparam('last_epoch'),
        _NODES.c.report_seq == sa.bindparam('last_seq')).values(
            report_epoch=sa.bindparam('epoch'),
            report_seq=sa.bindparam('seq'), state=sa.bindparam('new'),
            complete=sa.bindparam('all_reported'),
            last_seen=base.clock(dialect))
