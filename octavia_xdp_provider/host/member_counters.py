# SPDX-License-Identifier: Apache-2.0
"""What members carried, by load balancer and member.

The datapath counts by entry, and an entry's counters begin anew with it: a
listener that is removed, or a key that changes, would make sums fall. So what
has been added is added up here.
"""

import collections.abc
import threading
import typing

from octavia_xdp_provider.host import documents
from octavia_xdp_provider.host import types

# Of types.EntryState, in this order.
COUNTERS = ('packets_in', 'bytes_in', 'packets_out', 'bytes_out', 'flows',
            'drops')

Name = tuple[str, str]  # ids of load balancer and member
Document = collections.abc.Mapping[str, typing.Any]


class MemberCounters:
    """Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[int, tuple[int, ...]] = {}
        self._sums: dict[Name, list[int]] = {}

    def update(self, entries: collections.abc.Iterable[types.EntryState],
               names: collections.abc.Mapping[int, Name]
               ) -> dict[Name, tuple[int, ...]]:
        """COUNTERS of each member that is here, none of which falls.

        :param names: by key of the entry.
        """
        with self._lock:
            found = {one.entry.key: tuple(getattr(one, name)
                                          for name in COUNTERS)
                     for one in entries}
            for key, now in found.items():
                if key in names:
                    self._add(names[key], self._seen.get(key), now)
            self._seen = found
            here = set(names.values())
            self._sums = {name: sums for name, sums in self._sums.items()
                          if name in here}
            return {name: tuple(sums) for name, sums in self._sums.items()}

    def _add(self, name: Name, before: tuple[int, ...] | None,
             now: tuple[int, ...]) -> None:
        if before is None or any(
                new < old for new, old in zip(now, before, strict=True)):
            before = (0,) * len(now)
        sums = self._sums.setdefault(name, [0] * len(now))
        for place, (new, old) in enumerate(zip(now, before, strict=True)):
            sums[place] += new - old


def names(wanted: collections.abc.Iterable[Document]) -> dict[int, Name]:
    """Load balancer and member by key.

    :param wanted: documents as they are kept; malformed ones are left out.
    """
    found = {}
    for document in wanted:
        if not documents.is_port(document):
            continue
        entries = document.get('entries')
        for entry in entries if isinstance(entries, list) else ():
            try:
                found[entry['key']] = (entry['load_balancer_id'],
                                       entry['member_id'])
            except (KeyError, TypeError):
                continue
    return found
