# SPDX-License-Identifier: Apache-2.0
"""The actual state of hypervisors, as their agents report it.

Reports are numbered and accepted like those of LB nodes (reports.py). An
agent only writes columns of its own hypervisor's rows.
"""

import json
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import hypervisors
from octavia_xdp_provider.controller.store import models

_HOSTS = models.Hypervisor.__table__
_OBJECTS = models.HostObject.__table__
_NOTHING: dict[str, Any] = {'held_generation': 0, 'ifindex': None,
                            'error': None}


class Taken(NamedTuple):
    """``news``: whether anything has changed that the leader may wait for."""

    answer: host_messages.ReportAnswer
    news: bool = False


class HostReports(base.Queries):
    """Stores reports of agents."""

    @base.retried
    def take(self, host: str, epoch: int, seq: int,
             report: host_messages.Report) -> Taken:
        """Store a report, if it is the next one.

        :raises Refused: the hypervisor is not registered.
        """
        with self._database.write_rows() as rows:
            row = rows.execute(sa.select(_HOSTS).where(
                _HOSTS.c.host == host)).first()
            if row is None:
                raise hypervisors.unregistered(host)
            last = (row.report_epoch, row.report_seq)
            if (epoch, seq) == last:
                return Taken(_answer(True, last))
            begins = epoch > last[0] and seq == 1
            if not (begins or (epoch, seq - 1) == last):
                return Taken(_answer(False, last))
            state = row.state if report['state'] is None else json.dumps(
                report['state'], sort_keys=True)
            # Another controller may have accepted one meanwhile.
            if not rows.execute(sa.update(_HOSTS).where(
                    _HOSTS.c.host == host, _HOSTS.c.report_epoch == last[0],
                    _HOSTS.c.report_seq == last[1]).values(
                        report_epoch=epoch, report_seq=seq, state=state,
                        complete=report['complete'],
                        last_seen=base.now(rows))).rowcount:
                return Taken(_answer(False, last))
            news = state != row.state or row.complete != report['complete']
            news |= _take_objects(rows, host, epoch, report)
            if report['complete']:
                if begins or not row.complete:
                    news |= _forget_unreported(rows, host, epoch)
                news |= bool(rows.execute(sa.delete(_OBJECTS).where(
                    _OBJECTS.c.host == host,
                    _OBJECTS.c.removed_generation <= report['as_of'],
                    _OBJECTS.c.held_generation == 0)).rowcount)
            if news:
                rows.execute(sa.update(_HOSTS).where(
                    _HOSTS.c.host == host).values(
                        reported_generation=_HOSTS.c.reported_generation + 1))
        return Taken(_answer(True, (epoch, seq)), news)


def _take_objects(rows: sa.Connection, host: str, epoch: int,
                  report: host_messages.Report) -> bool:
    news = False
    named = {*report['held'], *report['gone'], *report['counters']}
    for ids in base.chunks(named):
        for row in rows.execute(sa.select(_OBJECTS).where(
                _OBJECTS.c.host == host, _OBJECTS.c.id.in_(ids))).all():
            values: dict[str, Any] = {}
            if row.id in report['held'] or row.id in report['gone']:
                held = report['held'].get(row.id)
                values = dict(_NOTHING) if held is None else {
                    'held_generation': held['generation'],
                    'ifindex': held['ifindex'], 'error': held['error']}
                news |= any(getattr(row, name) != value
                            for name, value in values.items())
                values['report_epoch'] = epoch
            if row.id in report['counters']:
                values['counters'] = json.dumps(
                    report['counters'][row.id], sort_keys=True)
            rows.execute(sa.update(_OBJECTS).where(
                _OBJECTS.c.host == host, _OBJECTS.c.id == row.id
            ).values(values))
    return news


def _forget_unreported(rows: sa.Connection, host: str, epoch: int) -> bool:
    """Reset objects that a complete epoch has not reported."""
    return bool(rows.execute(sa.update(_OBJECTS).where(
        _OBJECTS.c.host == host, _OBJECTS.c.report_epoch != epoch,
        _OBJECTS.c.held_generation != 0).values(_NOTHING)).rowcount)


def _answer(taken: bool, last: tuple[int, int]) -> host_messages.ReportAnswer:
    return {'taken': taken, 'epoch': last[0], 'seq': last[1]}
