# SPDX-License-Identifier: Apache-2.0
"""Which nodes are still to report that they have made a change true.

Nothing can be said of a change before the last of them has: so a load
balancer is looked at when that one has reported, and not for each. This is
of the process, and only makes it quicker and cheaper: other nodes may report
to another controller, and the work queue has the load balancer due in a
second in any case.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import threading
import time

# Seconds after which a node is not waited for any more.
PATIENCE_S = 5.0
# Load balancers that are remembered; more than are ever under way.
_MAX = 10_000


@dataclasses.dataclass
class _Change:
    generation: int
    hosts: set[str]
    until: float


class Awaited:
    """Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: dict[str, _Change] = {}

    def expect(self, load_balancer_id: str, generation: int,
               hosts: Iterable[str]) -> None:
        """These nodes are notified of a change, and will report."""
        change = _Change(generation, set(hosts),
                         time.monotonic() + PATIENCE_S)
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
                else:
                    waiting.add(key)
        return last, waiting, unexpected
