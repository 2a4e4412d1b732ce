# SPDX-License-Identifier: Apache-2.0
"""What members and ports carried, over all their entries.

The datapath counts by entry, and an entry's counters begin anew with it: a
listener that is removed, or a key that changes, would make sums fall. So what
has been added is added up here, what an entry that goes counted last too.
"""

import collections.abc
import threading
import time
import typing

from octavia_xdp_provider.host import documents
from octavia_xdp_provider.host import types

# Of types.EntryState, in this order.
COUNTERS = ('packets_in', 'bytes_in', 'packets_out', 'bytes_out', 'flows',
            'drops')

Name = tuple[str, ...]  # labels
Names = dict[int, Name]  # by key of the entry
Document = collections.abc.Mapping[str, typing.Any]


class EntrySums:
    """Sums by name. Any thread may use it."""

    def __init__(self, clock: collections.abc.Callable[[], float]
                 = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._names: Names = {}
        self._seen: dict[int, tuple[int, ...]] = {}
        self._sums: dict[Name, list[int]] = {}
        self._ended_at = float('-inf')

    def learn(self, names: collections.abc.Mapping[int, Name]) -> None:
        """Whose entries are from now on, of all that there are."""
        with self._lock:
            self._names = dict(names)

    def ending(self, entries: collections.abc.Iterable[types.EntryState]
               ) -> None:
        """What entries have counted that are about to go. One that cannot go
        may come again."""
        with self._lock:
            for one in entries:
                self._add(one)
                self._seen[one.entry.key] = _counts(one)
            self._ended_at = self._clock()

    def update(self, entries: collections.abc.Iterable[types.EntryState],
               read_at: float) -> dict[Name, tuple[int, ...]]:
        """COUNTERS of each name that there is, none of which falls.

        :param entries: all of them, as they were at ``read_at``.
        """
        with self._lock:
            if read_at > self._ended_at:
                found = list(entries)
                for one in found:
                    self._add(one)
                self._seen = {one.entry.key: _counts(one) for one in found}
            here = set(self._names.values())
            self._sums = {name: sums for name, sums in self._sums.items()
                          if name in here}
            return {name: tuple(sums) for name, sums in self._sums.items()}

    def _add(self, one: types.EntryState) -> None:
        name = self._names.get(one.entry.key)
        if name is None:
            return
        now, before = _counts(one), self._seen.get(one.entry.key)
        if before is None or any(
                new < old for new, old in zip(now, before, strict=True)):
            before = (0,) * len(now)
        sums = self._sums.setdefault(name, [0] * len(now))
        for place, (new, old) in enumerate(zip(now, before, strict=True)):
            sums[place] += new - old


class Carried:
    """The sums that metrics have: of members (by the ids of load balancer and
    member) and of ports (by id)."""

    def __init__(self) -> None:
        self.members, self.ports = EntrySums(), EntrySums()

    def learn(self, wanted: collections.abc.Iterable[Document]) -> None:
        """:param wanted: documents as they are kept."""
        found = list(wanted)
        self.members.learn(names(found))
        self.ports.learn(port_names(found))

    def ending(self, entries: collections.abc.Collection[types.EntryState]
               ) -> None:
        self.members.ending(entries)
        self.ports.ending(entries)


def _counts(one: types.EntryState) -> tuple[int, ...]:
    return tuple(getattr(one, name) for name in COUNTERS)


def names(wanted: collections.abc.Iterable[Document]) -> Names:
    """Load balancer and member by key.

    :param wanted: documents as they are kept; malformed ones are left out.
    """
    return _by_key(wanted, lambda _document, entry: (
        entry['load_balancer_id'], entry['member_id']))


def port_names(wanted: collections.abc.Iterable[Document]) -> Names:
    """The same, with the port's id."""
    return _by_key(wanted, lambda document, _entry: (document['id'],))


def _by_key(wanted: collections.abc.Iterable[Document],
            name: collections.abc.Callable[[Document, Document], Name]
            ) -> Names:
    found = {}
    for document in wanted:
        if not documents.is_port(document):
            continue
        entries = document.get('entries')
        for entry in entries if isinstance(entries, list) else ():
            try:
                found[entry['key']] = name(document, entry)
            except (KeyError, TypeError):
                continue
    return found
