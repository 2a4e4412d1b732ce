# SPDX-License-Identifier: Apache-2.0
"""Which nodes are still to report that they have made a change true.

Nothing can be said of a change before the last of them has: so a load
balancer is looked at when that one has reported, and not for each. This is
of the process, and only makes it quicker and cheaper: other nodes may report
to another controller, and the work queue has the load balancer due in a
few seconds in any case.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import threading
import time

# Seconds after which a node is not waited for any more.
PATIENCE_S = 5.0
# Seconds for which the other nodes are waited for when one has reported: at
# least, and in times of what nodes took lately. To look once more at each
# change would keep a busy controller busy.
OTHERS_S = 0.2
_TIMES = 2.0
# What the last change counts in what nodes take.
_WEIGHT = 0.1
# Load balancers that are remembered; more than are ever under way.
_MAX = 10_000


@dataclasses.dataclass
class _Change:
    generation: int
    hosts: set[str]
    since: float

    @property
    def until(self) -> float:
        return self.since + PATIENCE_S


class Awaited:
    """Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: dict[str, _Change] = {}
        self._took_s = 0.0  # all nodes, lately

    @property
    def others_s(self) -> float:
        """Seconds after a report in which the other nodes report, too,
        unless they report to another controller."""
        return min(max(OTHERS_S, _TIMES * self._took_s), PATIENCE_S)

    def expect(self, load_balancer_id: str, generation: int,
               hosts: Iterable[str]) -> None:
        """These nodes are notified of a change, and will report."""
        change = _Change(generation, set(hosts), time.monotonic())
        with self._lock:
            if len(self._changes) >= _MAX:
                self._changes.clear()
            self._changes[load_balancer_id] = change

    def reported(self, host: str, touched: Iterable[str],
                 generations: Mapping[str, int]
               ) -> tuple[set[str], set[str], set[str]]:
        """A node has reported of these load balancers.

        :param generations: those that it has, by id; of the others it has
            none.
        :returns: ids that all have reported now, ids that others are still
            to report, and ids that nobody was waited for.
        """
        last, waiting, unexpected = set(), set(), set()
        now = time.monotonic()
        with self._lock:
            for key in touched:
                change = self._changes.get(key)
                if change is None or now > change.until:
                    self._changes.pop(key, None)
                    unexpected.add(key)
                    continue
                if generations.get(key, change.generation) >= (
                        change.generation):
                    change.hosts.discard(host)
                if not change.hosts:
                    del self._changes[key]
                    last.add(key)
                    self._took_s += _WEIGHT * (now - change.since
                                               - self._took_s)
                else:
                    waiting.add(key)
        return last, waiting, unexpected
