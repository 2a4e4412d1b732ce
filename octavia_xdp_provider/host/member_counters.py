# SPDX-License-Identifier: Apache-2.0
"""Traffic of members and ports, summed over all their entries.

The datapath counts per entry, and counters restart with each entry: removing
a listener or changing a key would make the sums fall. So increments are added
up here, including the last one of an entry that is removed.
"""

import collections.abc
import threading
import time
import typing

from octavia_xdp_provider.host import documents
from octavia_xdp_provider.host import types

# Fields of types.EntryState, in this order.
COUNTERS = ('packets_in', 'bytes_in', 'packets_out', 'bytes_out', 'flows',
            'drops')

Name = tuple[str, ...]  # labels
Names = dict[int, Name]  # by key of the entry
Document = collections.abc.Mapping[str, typing.Any]


class EntrySums:
    """Sums by name; thread-safe."""

    def __init__(self, clock: collections.abc.Callable[[], float]
                 = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._names: Names = {}
        self._seen: dict[int, tuple[int, ...]] = {}
        self._sums: dict[Name, list[int]] = {}
        self._ended_at = float('-inf')

    def learn(self, names: collections.abc.Mapping[int, Name]) -> None:
        """Replace the names of all entries."""
        with self._lock:
            self._names = dict(names)

    def ending(self, entries: collections.abc.Iterable[types.EntryState]
               ) -> None:
        """Add the counters of entries about to be removed. An entry whose
        removal fails may be passed again."""
        with self._lock:
            for state in entries:
                self._add(state)
                self._seen[state.entry.key] = _counts(state)
            self._ended_at = self._clock()

    def update(self, entries: collections.abc.Iterable[types.EntryState],
               read_at: float) -> dict[Name, tuple[int, ...]]:
        """Return monotonic COUNTERS of each current name.

        :param entries: all entries, as of ``read_at``.
        """
        with self._lock:
            if read_at > self._ended_at:
                states = list(entries)
                for state in states:
                    self._add(state)
                self._seen = {state.entry.key: _counts(state)
                              for state in states}
            current = set(self._names.values())
            self._sums = {name: sums for name, sums in self._sums.items()
                          if name in current}
            return {name: tuple(sums) for name, sums in self._sums.items()}

    def _add(self, state: types.EntryState) -> None:
        name = self._names.get(state.entry.key)
        if name is None:
            return
        now, before = _counts(state), self._seen.get(state.entry.key)
        if before is None or any(
                new < old for new, old in zip(now, before, strict=True)):
            before = (0,) * len(now)
        sums = self._sums.setdefault(name, [0] * len(now))
        for place, (new, old) in enumerate(zip(now, before, strict=True)):
            sums[place] += new - old


class Carried:
    """The exported sums, of members (by load balancer) and of ports."""

    def __init__(self) -> None:
        self.members, self.ports = EntrySums(), EntrySums()

    def learn(self, wanted: collections.abc.Iterable[Document]) -> None:
        """:param wanted: documents as cached."""
        kept = list(wanted)
        self.members.learn(names(kept))
        self.ports.learn(port_names(kept))

    def ending(self, entries: collections.abc.Collection[types.EntryState]
               ) -> None:
        self.members.ending(entries)
        self.ports.ending(entries)


def _counts(state: types.EntryState) -> tuple[int, ...]:
    return tuple(getattr(state, name) for name in COUNTERS)


def names(wanted: collections.abc.Iterable[Document]) -> Names:
    """Return (load balancer id, member id) by key.

    :param wanted: documents as cached; malformed entries are left out.
    """
    return _by_key(wanted, lambda _document, entry: (
        entry['load_balancer_id'], entry['member_id']))


def port_names(wanted: collections.abc.Iterable[Document]) -> Names:
    """Return (port id,) by key."""
    return _by_key(wanted, lambda document, _entry: (document['id'],))


def _by_key(wanted: collections.abc.Iterable[Document],
            name: collections.abc.Callable[[Document, Document], Name]
            ) -> Names:
    names_by_key = {}
    for document in wanted:
        if not documents.is_port(document):
            continue
        entries = document.get('entries')
        for entry in entries if isinstance(entries, list) else ():
            try:
                names_by_key[entry['key']] = name(document, entry)
            except (KeyError, TypeError):
                continue
    return names_by_key
