# SPDX-License-Identifier: Apache-2.0
"""The loops of a process, and whether they are alive.

A thread that hangs in a lock or in a call gives no sign of it. So each loop
reports in every iteration that it is alive, and the watchdog and the health
check query the loops that have not done so for too long.
"""

from collections.abc import Callable
import threading
import time

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class Loops:
    """The loops of one process. Thread-safe.

    :param limit_s: seconds after which a loop is considered hanging.
    """

    def __init__(self, limit_s: float,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._lock = threading.Lock()
        self._ages: dict[str, Callable[[], float]] = {}

    def watch(self, name: str) -> Callable[[], None]:
        """Register a loop that begins now.

        :returns: a function that the loop must call in each iteration.
        """
        last = [self._clock()]

        def report_alive() -> None:
            last[0] = self._clock()
        self.watch_age(name, lambda: self._clock() - last[0])
        return report_alive

    def watch_age(self, name: str, age_s: Callable[[], float]) -> None:
        """Register a function that returns for how many seconds a thread has
        been busy with its current work; 0 if it is idle."""
        with self._lock:
            self._ages[name] = age_s

    def ages(self) -> dict[str, float]:
        """Return the seconds since each loop was last alive, by name."""
        with self._lock:
            ages = dict(self._ages)
        return {name: age_s() for name, age_s in ages.items()}

    def hanging(self) -> dict[str, float]:
        """Return the same for loops that hang."""
        return {name: age for name, age in self.ages().items()
                if age > self._limit_s}


class Loop:
    """Runs a step periodically, and whenever it is woken, until ``stop`` is
    called. ``wake`` and ``stop`` are thread-safe."""

    def __init__(self, step: Callable[[], None], interval_s: float,
                 complaint: str,
                 come_round: Callable[[], None] = lambda: None,
                 expected: type[Exception] | tuple[type[Exception], ...] = ()
                 ) -> None:
        """:param complaint: logged for a step that fails, once until a step
            succeeds.

        :param come_round: see Loops.watch; also called by long steps.
        :param expected: exceptions that end a step but are not failures.
        """
        self._take_step = step
        self._interval_s = interval_s
        self._complaint = complaint
        self._come_round = come_round
        self._expected = expected
        self._woken = threading.Event()
        self._stopping = False

    def wake(self) -> None:
        """Run a step now."""
        self._woken.set()

    def stop(self) -> None:
        """Ask ``run`` to return after the current step."""
        self._stopping = True
        self._woken.set()

    def run(self) -> None:
        failing = False
        while not self._stopping:
            self._woken.clear()
            self._come_round()
            try:
                self._take_step()
                failing = False
            except self._expected as error:
                LOG.info('%s.', error)
            except Exception:
                if not failing:
                    LOG.exception('%s', self._complaint)
                failing = True
            self._woken.wait(self._interval_s)


def words(hanging: dict[str, float]) -> str:
    """Describe hanging loops for a log or a status."""
    return ', '.join(f'{name} for {age:.0f} s'
                     for name, age in sorted(hanging.items()))
