# SPDX-License-Identifier: Apache-2.0
"""An index of names by an attribute."""

from collections.abc import Collection
from collections.abc import Hashable
from typing import Generic
from typing import TypeVar

Value = TypeVar('Value', bound=Hashable)
Name = TypeVar('Name', bound=Hashable)


class Index(Generic[Value, Name]):
    """Names by a value; names whose value is None are not indexed."""

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
