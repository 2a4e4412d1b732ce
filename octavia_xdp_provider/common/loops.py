# SPDX-License-Identifier: Apache-2.0
"""The loops of a process, and whether they come round.

A thread that hangs, in a lock or in a call that does not end, shows nothing.
So each loop says whenever it comes round, and whoever wants to know asks for
those that have not for too long: the watchdog and the health check.
"""

from collections.abc import Callable
import threading
import time

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class Loops:
    """The loops of one process. Any thread may use it.

    :param limit_s: seconds after which a loop counts as hanging.
    """

    def __init__(self, limit_s: float,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._lock = threading.Lock()
        self._ages: dict[str, Callable[[], float]] = {}

    def watch(self, name: str) -> Callable[[], None]:
        """A loop that begins now.

        :returns: what the loop calls whenever it comes round.
        """
        last = [self._clock()]

        def come_round() -> None:
            last[0] = self._clock()
        self.watch_age(name, lambda: self._clock() - last[0])
        return come_round

    def watch_age(self, name: str, age_s: Callable[[], float]) -> None:
        """Something that knows for how many seconds it has been at one
        thing; 0 where it waits for work."""
        with self._lock:
            self._ages[name] = age_s

    def ages(self) -> dict[str, float]:
        """Name → seconds since it came round."""
        with self._lock:
            ages = dict(self._ages)
        return {name: age_s() for name, age_s in ages.items()}

    def hanging(self) -> dict[str, float]:
        """The same, of those that hang."""
        return {name: age for name, age in self.ages().items()
                if age > self._limit_s}


class Loop:
    """Takes steps until ``stop`` is called: one every so many seconds, and
    one whenever it is woken. ``wake`` and ``stop`` are safe in any thread."""

    def __init__(self, step: Callable[[], None], interval_s: float,
                 complaint: str,
                 come_round: Callable[[], None] = lambda: None,
                 expected: type[Exception] | tuple[type[Exception], ...] = ()
                 ) -> None:
        """:param complaint: what is logged of a step that fails, once until
            one succeeds.

        :param come_round: see Loops.watch. A step that may take long calls
            it as well.
        :param expected: exceptions that end a step and are no failure.
        """
        self._take_step = step
        self._interval_s = interval_s
        self._complaint = complaint
        self._come_round = come_round
        self._expected = expected
        self._woken = threading.Event()
        self._stopping = False

    def wake(self) -> None:
        """There is something to do."""
        self._woken.set()

    def stop(self) -> None:
        """Ask ``run`` to return after the step that is under way."""
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
    """What hangs, for a person."""
    return ', '.join(f'{name} for {age:.0f} s'
                     for name, age in sorted(hanging.items()))
