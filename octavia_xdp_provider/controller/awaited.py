# SPDX-License-Identifier: Apache-2.0
"""Tracks which nodes have yet to report that they have applied a change.

A load balancer has to be advanced when the last of its nodes has reported,
and not for each report. This is an optimization within one process: other
nodes may report to another controller, and the work queue has the load
balancer due in a few seconds in any case.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import threading
import time

# Seconds after which nodes are no longer awaited.
PATIENCE_S = 5.0
# Wait for the other nodes once one has reported: the minimum in seconds, and
# the factor of the average time that nodes take. Additional steps for each
# change would keep a busy controller busy.
OTHERS_S = 0.2
_TIMES = 2.0
# Weight of the last change in the average time that nodes take.
_WEIGHT = 0.1
# Load balancers that are tracked; more than are ever under way.
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
    """The nodes that are awaited. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changes: dict[str, _Change] = {}
        self._took_s = 0.0  # average time until all nodes have reported

    @property
    def others_s(self) -> float:
        """Return the seconds after a report in which the other nodes report
        as well, unless they report to another controller."""
        return min(max(OTHERS_S, _TIMES * self._took_s), PATIENCE_S)

    def expect(self, load_balancer_id: str, generation: int,
               hosts: Iterable[str]) -> None:
        """Note nodes that are being notified of a change and will report."""
        change = _Change(generation, set(hosts), time.monotonic())
        with self._lock:
            if len(self._changes) >= _MAX:
                self._changes.clear()
            self._changes[load_balancer_id] = change

    def reported(self, host: str, touched: Iterable[str],
                 generations: Mapping[str, int]
               ) -> tuple[set[str], set[str], set[str]]:
        """Note a node's report on load balancers.

        :param generations: id → generation that the node has; it has none of
            the others.
        :returns: ids that all nodes have reported now, ids that other nodes
            have yet to report, and ids that were not awaited.
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
