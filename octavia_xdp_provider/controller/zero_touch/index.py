# SPDX-License-Identifier: Apache-2.0
"""Names by something that they have."""

from collections.abc import Collection
from collections.abc import Hashable
from typing import Generic
from typing import TypeVar

Value = TypeVar('Value', bound=Hashable)
Name = TypeVar('Name', bound=Hashable)


class Index(Generic[Value, Name]):
    """Names by a value that each has, or does not have (None)."""

    def __init__(self) -> None:
        self._names: dict[Value, set[Name]] = {}

    def add(self, value: Value | None, name: Name) -> None:
        if value is not None:
            self._names.setdefault(value, set()).add(name)

    def discard(self, value: Value | None, name: Name) -> None:
        if value is None or value not in self._names:
            return
        self._names[value].discard(name)
        if not self._names[value]:
            del self._names[value]

    def names(self, value: Value) -> Collection[Name]:
        return self._names.get(value, ())

    def values(self) -> Collection[Value]:
        return self._names.keys()
