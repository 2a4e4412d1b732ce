# SPDX-License-Identifier: Apache-2.0
"""The time of the controller's database, as a driver knows it.

Deadlines are in the database's time, so that the clocks of the hosts need
not agree. Every answer of the controller carries it. An answer was under way
for a while, so that the clock is late at most by that: a deadline is then
early, and never late.
"""

import time

# Seconds after which the two clocks may have drifted apart too far.
_FRESH_S = 600.0


def _elapsed() -> float:
    """Seconds that go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class DatabaseClock:
    """Seconds since the epoch."""

    def __init__(self) -> None:
        self._known: tuple[float, float] | None = None

    def set(self, now: float) -> None:
        """An answer says what time it is."""
        self._known = (now, _elapsed())

    def now(self) -> float | None:
        """The time, or None if it has to be asked for."""
        if self._known is None:
            return None
        then, at = self._known
        passed = _elapsed() - at
        return then + passed if passed < _FRESH_S else None
