# SPDX-License-Identifier: Apache-2.0
"""What HAProxy's runtime API answers, as Python's types.

A process belongs to one tenant's load balancer and may have been taken over:
whatever does not look as expected is refused or left out.
"""

import csv
import itertools
import re
from typing import NamedTuple

# Kinds of rows, as "show stat" takes them: they can be added up.
FRONTENDS, BACKENDS, SERVERS = 1, 2, 4
# As rows call the whole of a frontend or backend in place of a server.
FRONTEND, BACKEND = 'FRONTEND', 'BACKEND'
_MAINTENANCE = 'MAINT'
_COMMENT = '# '
_HEADING = f'{_COMMENT}pxname,svname,'
_NEEDED = {'pxname', 'svname', 'status', 'scur', 'stot', 'bin', 'bout', 'ereq'}

_PROCESS = re.compile(r'^(\d{1,10})\s+worker\s')

Row = dict[str, str]


class BadAnswer(Exception):
    """An answer that HAProxy does not give."""


class Server(NamedTuple):
    """A member as HAProxy has it: names of its backend and of itself."""

    backend: str
    name: str


def parse_statistics(text: str, rows_max: int) -> list[Row]:
    """Return the rows of "show stat": value by name of the column.

    :raises BadAnswer: it is no such table, or has too many rows.
    """
    if not text.startswith(_HEADING):
        raise BadAnswer(f'no statistics: {text[:80]!r}')
    lines = csv.reader(text[len(_COMMENT):].splitlines())
    columns = next(lines)
    rows = [dict(zip(columns, values, strict=True)) for values
            in itertools.islice(lines, rows_max)
            if len(values) == len(columns)]
    if next(lines, None) is not None or not all(
            row.keys() >= _NEEDED for row in rows[:1]):
        raise BadAnswer(f'not the statistics of {rows_max} rows')
    return rows


def parse_information(text: str) -> Row:
    """Return the values of "show info" by name."""
    return {name: value for name, separator, value in (
        line.partition(': ') for line in text.splitlines()) if separator}


def parse_workers(text: str) -> list[int]:
    """Return the process ids of all workers of a master ("show proc")."""
    return [int(matched[1]) for matched
            in map(_PROCESS.match, text.splitlines()) if matched]


def number(row: Row, column: str) -> int:
    """Return a value that counts something; 0 where there is none."""
    value = row.get(column) or '0'
    return int(value) if value.isdecimal() and len(value) < 20 else 0


def kind(row: Row) -> int:
    """Return FRONTENDS, BACKENDS or SERVERS."""
    return {FRONTEND: FRONTENDS, BACKEND: BACKENDS}.get(row['svname'], SERVERS)


def is_in_maintenance(row: Row) -> bool:
    return row['status'].startswith(_MAINTENANCE)


def maintenance(rows: list[Row]) -> dict[Server, bool]:
    """Return which servers get no requests because they were told so."""
    return {Server(row['pxname'], row['svname']): is_in_maintenance(row)
            for row in rows if row['svname'] not in (FRONTEND, BACKEND)}
