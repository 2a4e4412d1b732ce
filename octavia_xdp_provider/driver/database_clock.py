# SPDX-License-Identifier: Apache-2.0
"""The driver's estimate of the time of the controller's database.

Deadlines are in the database's time, so that the clocks of the hosts need
not agree. Every answer of the controller carries that time. The estimate lags
by the answer's transit time at most, so a deadline can be early but not late.
"""

import time

# Seconds after which the drift between the two clocks may matter.
_FRESH_S = 600.0


def _elapsed() -> float:
    """Return a monotonic time in seconds that includes suspended time."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class DatabaseClock:
    """Seconds since the epoch."""

    def __init__(self) -> None:
        self._known: tuple[float, float] | None = None

    def set(self, now: float) -> None:
        """Take over the time that an answer carries."""
        self._known = (now, _elapsed())

    def now(self) -> float | None:
        """Return the estimated time, or None if it is unknown or too old."""
        if self._known is None:
            return None
        database_time, received_at = self._known
        passed = _elapsed() - received_at
        return database_time + passed if passed < _FRESH_S else None
