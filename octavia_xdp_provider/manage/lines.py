# SPDX-License-Identifier: Apache-2.0
"""Cells of tables that have several lines."""

import json

from cliff import columns


class Lines(columns.FormattableColumn):
    """A list: a line for each in a table, itself in JSON."""

    def human_readable(self):
        return '\n'.join(
            one if isinstance(one, str) else ', '.join(
                f'{name} {value}' for name, value in one.items()
                if value not in (None, False))
            for one in self._value) or '-'


class Fields(columns.FormattableColumn):
    """A dictionary: a line for each value, of what is in that as well, in a
    table; itself in JSON."""

    def human_readable(self):
        return '\n'.join(_fields('', self._value)) or '-'


def _fields(name, value):
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _fields(f'{name}.{key}' if name else str(key), below)
    elif isinstance(value, list) and any(isinstance(one, dict)
                                         for one in value):
        for number, one in enumerate(value):
            yield from _fields(f'{name}[{number}]', one)
    else:
        yield (f'{name}: '
               f'{value if isinstance(value, str) else json.dumps(value)}')
