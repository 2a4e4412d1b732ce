# SPDX-License-Identifier: Apache-2.0
"""Tables for people, JSON for programs."""

from collections.abc import Iterable
from collections.abc import Sequence
import json
from typing import Any

import prettytable

_UNITS = ('', 'k', 'M', 'G', 'T', 'P', 'E')


def table(headers: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return text in columns; numbers are right-aligned.

    :param headers: names of columns.
    :param rows: sequences of texts and numbers; None is shown as ``-``.
    """
    listed = [list(row) for row in rows]
    if not listed:
        return '  '.join(headers)
    out = prettytable.PrettyTable(list(headers))
    out.border = False
    out.left_padding_width = 0
    out.right_padding_width = 2
    out.align = 'l'
    for position, header in enumerate(headers):
        values = [row[position] for row in listed]
        if any(isinstance(value, int | float) and not isinstance(value, bool)
               for value in values):
            out.align[header] = 'r'
    for row in listed:
        out.add_row([cell(value) for value in row])
    return '\n'.join(line.rstrip() for line in out.get_string().splitlines())


def cell(value: Any) -> Any:
    """Return a value as it is shown in a table."""
    if value is None:
        return '-'
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if isinstance(value, float):
        return f'{value:.2f}'
    return value


def short(number: float) -> str:
    """Format a number with at most five characters: 1234 is 1.23k."""
    number = float(number)
    for unit in _UNITS:
        if number < 999.5 or unit == _UNITS[-1]:
            break
        number /= 1000
    if not unit and number == int(number):
        return str(int(number))
    decimals = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f'{number:.{decimals}f}{unit}'


def dump(value: Any) -> str:
    """Format a value as indented JSON, named tuples as objects."""
    return json.dumps(plain(value), indent=2)


def line(value: Any) -> str:
    """Format a value as JSON on one line, for repeated output."""
    return json.dumps(plain(value))


def plain(value: Any) -> Any:
    """Convert a value to the types of JSON; bytes become hexadecimal."""
    if hasattr(value, '_asdict'):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    return value
