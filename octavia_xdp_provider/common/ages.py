# SPDX-License-Identifier: Apache-2.0
"""How old something is by a clock that may be set: the database's, the wall's.

Times that were written before such a clock was set back lie in the future, by
as much as that. Nothing else subtracts them (``unit.test_ages``); clocks that
only run on, ``time.monotonic`` first of all, need no help.
"""

# The servers of a database differ by less than this.
_AHEAD_S = 1.0


def age(then: float, now: float) -> float:
    """Seconds since ``then``; 0 of what is to come."""
    return max(0.0, now - then)


def left(then: float, span_s: float, now: float) -> float:
    """Seconds until ``span_s`` is over that began with ``then``, or 0.

    Of what is to come nobody knows since when it lasts: it is over, so that
    nothing waits until a clock that was set back has caught up.
    """
    if then > now + _AHEAD_S:
        return 0.0
    return min(span_s, max(0.0, then + span_s - now))
