# SPDX-License-Identifier: Apache-2.0
"""Rates from the counters that nodes report.

A node reports a counter every ten seconds, but only if it has changed. A rate
is computed between two observed changes, so it is known after two reports; the
time of the change before them is unknown.
"""

import collections
from collections.abc import Mapping
from typing import NamedTuple

from octavia_xdp_provider.controller.store import figures

# Maximal number of seconds that a rate covers.
WINDOW_S = 30.0
# Seconds without a change after which the rate is 0: nodes report more often.
QUIET_S = 15.0


class Rate(NamedTuple):
    """Per second."""

    bytes: float
    flows: float
    drops: float


class Meter:
    """Computes rates from successive sums of counters."""

    def __init__(self) -> None:
        self._started_at: float | None = None
        self._last: dict[str, tuple[int, ...]] = {}
        # Name → (time of a change, sums since then).
        self._changes: dict[str, collections.deque[
            tuple[float, tuple[int, ...]]]] = {}

    def add(self, now: float, sums: Mapping[str, figures.Traffic]) -> None:
        """Record sums.

        :param now: seconds of any monotonic clock.
        """
        is_first = self._started_at is None
        if self._started_at is None:
            self._started_at = now
        sums_by_name: dict[str, tuple[int, ...]] = {
            name: traffic[:3] for name, traffic in sums.items()}
        for name, counters in sums_by_name.items():
            if is_first or self._last.get(name) == counters:
                continue
            changes = self._changes.setdefault(name, collections.deque())
            changes.append((now, counters))
            while len(changes) > 2 and changes[1][0] <= now - WINDOW_S:
                changes.popleft()
        for name in self._changes.keys() - sums.keys():
            del self._changes[name]
        self._last = sums_by_name

    def rate(self, name: str, now: float) -> Rate | None:
        """Return the rate, or None if it is not known yet."""
        changes = self._changes.get(name, ())
        if changes and now - changes[-1][0] <= QUIET_S:
            if len(changes) < 2:
                return None
            (since, old), (until, new) = changes[0], changes[-1]
            seconds = max(until - since, 1e-9)
            return Rate(*(max(0, after - before) / seconds for after, before
                          in zip(new, old, strict=True)))
        if self._started_at is None or now - self._started_at < QUIET_S:
            return None
        return Rate(0.0, 0.0, 0.0)
