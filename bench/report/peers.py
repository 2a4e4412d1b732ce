# SPDX-License-Identifier: Apache-2.0
"""The tables of doc/source/contributor/benchmarks/peers.rst, from the store.

The page includes them as reStructuredText, so that no figure is typed by hand.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import statistics

from bench import errors
from bench.results import model

HEAD = '''\
..
      SPDX-License-Identifier: Apache-2.0

.. Written by "tools/octavia-xdp-bench peers": do not edit.
'''
_SOFTWARE = {'xdp': 'this product', 'kernel': 'kernel', 'haproxy': 'HAProxy',
             'nginx': 'nginx', 'ipvs': 'IPVS'}


@dataclasses.dataclass(frozen=True)
class Column:
    """:param part: suffix of the case's name; '' for the first figure.
    :param factor: from the case's unit to that in the head.
    :param ratio: show the ratio to the product's figure.
    """

    head: str
    part: str
    factor: float = 1.0
    ratio: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """:param case: name of the scenario's variant."""

    title: str
    case: str
    columns: tuple[Column, ...]

    def name(self, column: Column) -> str:
        return '/'.join(filter(None, (self.case, column.part)))


_REQUESTS = (
    Column('requests/s', ''),
    Column('p50, ms', 'p50', 1e3),
    Column('p99, ms', 'p99', 1e3),
    Column('CPU, s a million requests', 'cpu'),
    Column('CPU, times ours', 'cpu', ratio=True),
    Column('CPU, s a million packets', 'packet_cpu'),
    Column('memory, MiB', 'memory', 1 / 2 ** 20))
_RATE = (Column('packets/s', ''), Column('times ours', '', ratio=True))
TABLES = (
    Table('Connections are kept', 'beside_others/on', _REQUESTS),
    Table('A connection for each request', 'beside_others/off', _REQUESTS),
    Table('10,000 datagrams/s', 'beside_packets', (
        Column('loss', 'loss'),
        Column('p50, µs', 'p50', 1e-3),
        Column('CPU, s a million packets', 'cpu'),
        Column('CPU, times ours', 'cpu', ratio=True),
        Column('memory, MiB', 'memory', 1 / 2 ** 20))),
    Table('In a guest that counts instructions: connections are kept',
          'beside_ipvs/on', _REQUESTS),
    Table('In a guest that counts instructions: a connection for each request',
          'beside_ipvs/off', _REQUESTS),
    Table('In a guest that counts instructions: datagrams at most',
          'beside_ipvs_rates/most', _RATE),
    Table('In a guest that counts instructions: datagrams without loss',
          'beside_ipvs_rates/loss_free', _RATE))


def text_of(runs: Sequence[model.Run]) -> str:
    """Return all tables; if several runs have a case, the last one counts.

    Tables without any figure say so.

    :raises BenchError: no table has a figure.
    """
    measured: dict[tuple[str, str], tuple[model.Run, model.Case]] = {}
    for run in runs:
        for case in run.cases:
            measured[case.name, case.software] = run, case
    lines, empty = [HEAD], []
    for table in TABLES:
        names = set(map(table.name, table.columns))
        if any(case.samples and name in names
               for (name, _), (_, case) in measured.items()):
            lines += [*_table(table, measured), '']
        else:
            lines += [f'*{table.title}*: not measured.', '']
            empty.append(table.case)
    if len(empty) == len(TABLES):
        raise errors.BenchError(
            f'no run has figures of {", ".join(empty)}: "octavia-xdp-bench '
            'run --suite peers" measures them')
    return '\n'.join(lines)


def _table(table, measured):
    names = {table.name(column) for column in table.columns}
    runs = {run.id: run for (name, _), (run, case) in measured.items()
            if name in names and case.samples}
    rows = {}
    for software, shown in _SOFTWARE.items():
        cases = {name: measured[name, software][1] for name in names
                 if (name, software) in measured}
        if any(case.samples for case in cases.values()):
            ours = {name: measured[name, 'xdp'][1] for name in names
                    if (name, 'xdp') in measured}
            rows[shown] = [_cell(table, column, cases, ours)
                           for column in table.columns]
    yield f'.. list-table:: {table.title}'
    yield '   :header-rows: 1'
    yield ''
    for name, cells in [('software', [column.head for column
                                      in table.columns]), *rows.items()]:
        for number, cell in enumerate((name, *cells)):
            yield f'   {" " if number else "*"} - {cell}'
    yield ''
    yield from _origin(table, runs.values(), measured)


def _cell(table, column, cases, ours):
    case = cases.get(table.name(column))
    if case is None or not case.samples:
        return 'not measured'
    values = [value * column.factor for value in case.samples]
    if not column.ratio:
        middle, least, most = (number(value) for value in (
            statistics.median(values), min(values), max(values)))
        return (middle if least == most
                else f'{middle} ({least} to {most})')
    reference = ours.get(table.name(column))
    if reference is None or not reference.samples:
        return 'not measured'
    own = statistics.median(reference.samples) * column.factor
    return number(statistics.median(values) / own) if own else 'none'


def _origin(table, runs, measured) -> Iterator[str]:
    """Yield the text below a table: rounds, commits and marks."""
    names = {table.name(column) for column in table.columns}
    cases = [(software, case) for (name, software), (_, case)
             in measured.items() if name in names]
    rounds = sorted({len(case.samples) for _, case in cases if case.samples})
    days = ' and '.join(sorted({f'{run.started:%Y-%m-%d}' for run in runs}))
    commits = ' and '.join(sorted({run.commit[:12] for run in runs}))
    yield (f'Medians of {_or(rounds)} rounds, with the least and the '
           f'greatest; {days},')
    yield f'commit {commits}.'
    kinds: dict[str, set[str]] = {}
    for software, case in cases:
        for mark in case.marks:
            kinds.setdefault(kind_of(mark), set()).add(
                _SOFTWARE.get(software, software))
    for kind, marked in sorted(kinds.items()):
        yield f'Marked: {kind} ({", ".join(sorted(marked))}).'


def kind_of(mark: str) -> str:
    """Return the subject of a mark, which precedes its colon, without the
    number of the round."""
    return mark.rpartition(' (round ')[0].partition(':')[0] or mark


def _or(numbers):
    *first, last = map(str, numbers)
    return f'{", ".join(first)} or {last}' if first else last


def number(value: float) -> str:
    """Return a number with three digits, or all digits before the point."""
    if abs(value) >= 100:
        return f'{value:,.0f}'
    return f'{value:.3g}'
