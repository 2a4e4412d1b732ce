# SPDX-License-Identifier: Apache-2.0
"""Table cells with several lines."""

from collections.abc import Iterator
import json
from typing import Any

from cliff import columns


class Lines(columns.FormattableColumn[Any]):
    """A list: one line for each element in a table, a list in JSON."""

    def human_readable(self) -> str:
        return '\n'.join(
            element if isinstance(element, str) else ', '.join(
                f'{name} {value}' for name, value in element.items()
                if value not in (None, False))
            for element in self._value) or '-'


class Fields(columns.FormattableColumn[Any]):
    """A nested dictionary: a line for each leaf in a table, itself in JSON."""

    def human_readable(self) -> str:
        return '\n'.join(_flatten('', self._value)) or '-'


def _flatten(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _flatten(f'{path}.{key}' if path else str(key), child)
    elif isinstance(value, list) and any(isinstance(element, dict)
                                         for element in value):
        for index, element in enumerate(value):
            yield from _flatten(f'{path}[{index}]', element)
    else:
        yield (f'{path}: '
               f'{value if isinstance(value, str) else json.dumps(value)}')
