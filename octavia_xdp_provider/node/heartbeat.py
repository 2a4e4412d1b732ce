# SPDX-License-Identifier: Apache-2.0
"""Signs of life of a node's processes, for the others.

A process touches a file whenever it has done what it is there for. The file's
time is the monotonic clock's, so that no change of the time of day makes a
process look dead or alive, and touching it needs no room on a full file
system.
"""

import contextlib
import os
import time

# Seconds of silence after which a process that works each second stands
# still.
SILENCE_MAX_S = 5.0


class Heartbeat:
    """A process's own."""

    def __init__(self, path: str) -> None:
        self._path = path

    def beat(self) -> None:
        """What is to be done is done, up to now."""
        now = time.monotonic_ns()
        # Who reads it finds out as well where this fails.
        with contextlib.suppress(OSError):
            descriptor = os.open(
                self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
                | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
            try:
                os.utime(descriptor, ns=(now, now))
            finally:
                os.close(descriptor)


def age_s(path: str) -> float | None:
    """Seconds since a process has shown a sign of life; None: never."""
    try:
        found = os.lstat(path).st_mtime_ns
    except OSError:
        return None
    return max(0.0, (time.monotonic_ns() - found) / 1e9)


def stands_still(path: str, since_s: float) -> bool:
    """Whether a process has shown no sign of life for too long.

    :param since_s: time.monotonic() from which on silence counts.
    """
    if time.monotonic() - since_s <= SILENCE_MAX_S:
        return False
    age = age_s(path)
    return age is None or age > SILENCE_MAX_S
