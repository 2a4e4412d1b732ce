# SPDX-License-Identifier: Apache-2.0
"""The text with Octavia's metrics of a load balancer on this node."""

from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Mapping
import re

from octavia_xdp_provider.proxy.runtime import answers
from octavia_xdp_provider.proxy.runtime import metric_names
from octavia_xdp_provider.proxy.runtime import totals

_KINDS = {answers.FRONTEND: 'l', answers.BACKEND: 'p'}
# HAProxy's own proxies have other names.
_ID = r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
_NAME = re.compile(f'^{_ID}(:{_ID})?$')
_FORMAT = {'l': 'listener="{}"', 'p': 'pool="{}"',
           'm': 'pool="{}",member="{}"'}

# Rows of an object, the newest process' last.
Objects = dict[tuple[str, str], list[answers.Row]]


def render(processes: Iterable[list[answers.Row]], sums: totals.Counts,
           down: Container[str]) -> str:
    """Return the metrics in Prometheus' text format.

    :param processes: statistics of each, the newest last.
    :param sums: counters over all processes.
    :param down: ids of members whose checks fail.
    """
    objects = _group(processes)
    lines: list[str] = []
    for kind, name in metric_names.OBJECTS.items():
        of_kind = [(labels, rows) for labels, rows in objects.items()
                   if _kind(labels) == kind]
        for metric in metric_names.METRICS:
            if kind in metric.kinds:
                lines += _lines(f'octavia_{name}_{metric.name}', metric.join, (
                    (_labels(labels), _value(metric, labels, rows, sums))
                    for labels, rows in of_kind))
        lines += _lines(
            f'octavia_{name}_http_responses_total', metric_names.COUNTER, (
                (f'{_labels(labels)},code="{code}"', sums.get(
                    '/'.join(labels), {}).get(column, 0))
                for labels, rows in of_kind
                for code, column in metric_names.RESPONSES.items()
                if rows[-1].get(column)))
        lines += _lines(f'octavia_{name}_status', max, (
            (f'{_labels(labels)},state="{state}"',
             float(state == _state(kind, labels, rows[-1], down)))
            for labels, rows in of_kind
            for state in metric_names.STATES[kind]))
    for metric in metric_names.SUMS:
        values = [_value(metric, labels, rows, sums)
                  for labels, rows in objects.items() if _kind(labels) == 'l']
        lines += _lines(f'octavia_loadbalancer_{metric.name}', metric.join,
                        [('', sum(value or 0 for value in values))])
    return ''.join(f'{line}\n' for line in lines)


def _group(processes: Iterable[list[answers.Row]]) -> Objects:
    objects: Objects = {}
    for rows in processes:
        for row in rows:
            if _NAME.match(row['pxname']):
                objects.setdefault((row['pxname'], row['svname']),
                                   []).append(row)
    return objects


def _kind(labels: tuple[str, str]) -> str:
    return _KINDS.get(labels[1], 'm')


def _labels(labels: tuple[str, str]) -> str:
    return _FORMAT[_kind(labels)].format(*labels)


def _value(metric: metric_names.Metric, labels: tuple[str, str],
           rows: list[answers.Row], sums: Mapping[str, Mapping[str, int]]
           ) -> float | None:
    """Return a value; None if HAProxy does not have it for this object."""
    if not any(row.get(metric.column) for row in rows):
        return None
    if metric.join is None:
        return sums.get('/'.join(labels), {}).get(metric.column, 0)
    values: list[float] = [answers.number(row, metric.column)
                           for row in rows if row.get(metric.column)]
    return metric.join(values) / metric.divisor


def _state(kind: str, labels: tuple[str, str], row: answers.Row,
           down: Container[str]) -> str:
    status = row['status'].partition(' ')[0]
    if kind == 'l':
        return 'UP' if status == 'OPEN' else 'DOWN'
    if kind == 'm' and labels[1] in down:
        return 'DOWN'
    return 'UP' if status == 'no' else status


def _lines(name: str, join: metric_names.Join,
           values: Iterable[tuple[str, float | None]]) -> list[str]:
    samples = [f'{name}{{{labels}}} {value:.15g}' if labels
               else f'{name} {value:.15g}'
               for labels, value in values if value is not None]
    if not samples:
        return []
    kind = 'counter' if join is None else 'gauge'
    return [f'# TYPE {name} {kind}', *samples]
