# SPDX-License-Identifier: Apache-2.0
"""Ages by clocks that may be set back: the database's and the wall clock.

Times recorded before such a clock was set back lie in the future. Only this
module subtracts them (``unit.test_ages``); monotonic clocks, in particular
``time.monotonic``, do not need it.
"""

# Clocks of a database's servers differ by less than this.
_AHEAD_S = 1.0


def age(then: float, now: float) -> float:
    """Return the seconds since ``then``; 0 if it lies in the future."""
    return max(0.0, now - then)


def left(then: float, span_s: float, now: float) -> float:
    """Return the seconds until ``span_s`` after ``then`` has passed, or 0.

    A span that begins in the future is considered over, so that nothing waits
    until a clock that was set back has caught up.
    """
    if then > now + _AHEAD_S:
        return 0.0
    return min(span_s, max(0.0, then + span_s - now))
