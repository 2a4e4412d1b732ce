# SPDX-License-Identifier: Apache-2.0
"""Rates of what nodes count, from what they have reported.

A node reports its counters every ten seconds, and where nothing has changed
not at all. So a rate is taken between two changes that were seen, and never
since an unknown moment: it is there after two reports.
"""

import collections
from collections.abc import Mapping
from typing import NamedTuple

from octavia_xdp_provider.controller.store import figures

# Seconds over which a rate goes, at most.
WINDOW_S = 30.0
# Seconds without a change after which there is nothing to be counted: nodes
# report more often than that.
QUIET_S = 15.0


class Rate(NamedTuple):
    """Per second."""

    bytes: float
    flows: float
    drops: float


class Meter:
    """Looks at sums again and again."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._last: dict[str, tuple[int, ...]] = {}
        # Name → when the sums changed, and to what.
        self._changes: dict[str, collections.deque[
            tuple[float, tuple[int, ...]]]] = {}

    def add(self, now: float, sums: Mapping[str, figures.Traffic]) -> None:
        """:param now: seconds, of any clock that goes steadily."""
        first = self._began is None
        if self._began is None:
            self._began = now
        counters = {name: traffic[:3] for name, traffic in sums.items()}
        for name, found in counters.items():
            if first or self._last.get(name) == found:
                continue
            changes = self._changes.setdefault(name, collections.deque())
            changes.append((now, found))
            while len(changes) > 2 and changes[1][0] <= now - WINDOW_S:
                changes.popleft()
        for name in self._changes.keys() - sums.keys():
            del self._changes[name]
        self._last = counters

    def rate(self, name: str, now: float) -> Rate | None:
        """None: it is not known yet."""
        changes = self._changes.get(name, ())
        if changes and now - changes[-1][0] <= QUIET_S:
            if len(changes) < 2:
                return None
            (since, old), (until, new) = changes[0], changes[-1]
            seconds = max(until - since, 1e-9)
            return Rate(*(max(0, after - before) / seconds for after, before
                          in zip(new, old, strict=True)))
        if self._began is None or now - self._began < QUIET_S:
            return None
        return Rate(0.0, 0.0, 0.0)
