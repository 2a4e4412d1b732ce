# SPDX-License-Identifier: Apache-2.0
"""Reads a scenario's configuration of software into a dataclass."""

from collections.abc import Mapping
import dataclasses
from typing import Any
from typing import TypeVar

from bench import errors

T = TypeVar('T')


def read(software: str, kind: type[T], given: Mapping[str, Any]) -> T:
    """Return an object of the dataclass, whose defaults determine types.

    :raises BenchError: a key is unknown, or a value has another type.
    """
    known = {field.name: field
             for field in dataclasses.fields(kind)}  # type: ignore
    for name, value in given.items():
        if name not in known:
            raise errors.BenchError(
                f'software {software}: unknown key "{name}" of its '
                f'configuration; there are: {", ".join(sorted(known))}')
        wanted = type(known[name].default)
        fits = isinstance(value, wanted) or (
            wanted is float and isinstance(value, int))
        if not fits or isinstance(value, bool) != (wanted is bool):
            raise errors.BenchError(
                f'software {software}: {name}: {value!r} is no '
                f'{wanted.__name__}')
        if not isinstance(value, bool | str) and value < 0:
            raise errors.BenchError(
                f'software {software}: {name}: {value!r} is negative')
    return kind(**given)
