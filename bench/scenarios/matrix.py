# SPDX-License-Identifier: Apache-2.0
"""Matrices: all combinations of values of keys of a declaration.

::

   matrix:
     traffic.flows: [1, 1024]          # a key, by its path, with its values
     encapsulation:                    # or a new name, with named choices
       gue: {software.configuration.encapsulation: gue}
       gue6: {software.configuration.encapsulation: gue, services.family: 6}
"""

from collections.abc import Iterator
from collections.abc import Mapping
import copy
import dataclasses
import itertools
from typing import Any

# Far more than anyone would wait for.
CELLS_MAX = 10_000
Keys = tuple[str | int, ...]


@dataclasses.dataclass(frozen=True)
class Choice:
    """One value of one row of the matrix.

    :param text: the part of names of cases that stands for it.
    :param changes: values by the path of their key.
    :param keys: where it is declared.
    """

    row: str
    text: str
    changes: Mapping[str, Any]
    keys: Keys

    @property
    def coordinate(self) -> float | str:
        """The value as a number if it is one, else as text."""
        values = list(self.changes.values())
        if len(values) == 1 and isinstance(values[0], int | float) and (
                not isinstance(values[0], bool)):
            return values[0]
        return self.text


def cells(matrix: Mapping[str, Any]) -> Iterator[tuple[Choice, ...]]:
    """Return all cells; an empty matrix has one, without choices.

    :raises ValueError: there are too many.
    """
    rows = [_choices(row, values) for row, values in matrix.items()]
    count = 1
    for row in rows:
        count *= len(row)
    if count > CELLS_MAX:
        raise ValueError(f'{count} combinations: {CELLS_MAX} or fewer are '
                         'run')
    return itertools.product(*rows)


def name_of(row: str) -> str:
    """Return the name of a row in plots: the last part of its path."""
    return row.rsplit('.', 1)[-1]


def _choices(row, values):
    if isinstance(values, dict):
        return [Choice(row, text, changes, ('matrix', row, text))
                for text, changes in values.items()]
    return [Choice(row, _text(value), {row: value}, ('matrix', row, index))
            for index, value in enumerate(values)]


def _text(value):
    if isinstance(value, bool):
        return 'on' if value else 'off'
    if isinstance(value, list | dict):
        return '-'.join(map(_text, value))
    return str(value).replace('/', '-')


def change(data: dict[str, Any], path: str, value: Any) -> None:
    """Set the value of a key by its path; items of lists go by number.

    :raises KeyError: there is no such list item, or the path leads through
        something that holds no keys.
    """
    change_keys(data, tuple(path.split('.')), value)


def change_keys(data: dict[str, Any], keys: tuple[str, ...],
                value: Any) -> None:
    """Like change(), for keys with dots in their names."""
    place: Any = data
    for key in keys[:-1]:
        if isinstance(place, list):
            place = place[_item(place, key, keys)]
        else:
            if not isinstance(place, dict):
                raise KeyError('.'.join(keys))
            place = place.setdefault(key, {})
    if isinstance(place, list):
        place[_item(place, keys[-1], keys)] = copy.deepcopy(value)
    elif isinstance(place, dict):
        place[keys[-1]] = copy.deepcopy(value)
    else:
        raise KeyError('.'.join(keys))


def _item(place, key, keys):
    if not key.isdigit() or int(key) >= len(place):
        raise KeyError('.'.join(keys))
    return int(key)
