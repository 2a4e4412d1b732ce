# SPDX-License-Identifier: Apache-2.0
"""Heartbeat files, by which processes of a node monitor each other.

A process touches its file whenever it has completed a round of work. The
file's time is that of the monotonic clock, so that setting the time of day
does not make a process look dead or alive. Touching also works on a full
file system.
"""

import contextlib
import os
import time

# Seconds without a heartbeat after which a process counts as stopped. It
# should send one each second.
SILENCE_MAX_S = 5.0


class Heartbeat:
    """The heartbeat of this process."""

    def __init__(self, path: str) -> None:
        self._path = path

    def beat(self) -> None:
        """Note that all work up to now is done."""
        now = time.monotonic_ns()
        # If this fails, readers see an old file, as for a stopped process.
        with contextlib.suppress(OSError):
            descriptor = os.open(
                self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
                | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
            try:
                os.utime(descriptor, ns=(now, now))
            finally:
                os.close(descriptor)


def age_s(path: str) -> float | None:
    """Return the seconds since the last heartbeat; None without one."""
    try:
        beat_ns = os.lstat(path).st_mtime_ns
    except OSError:
        return None
    return max(0.0, (time.monotonic_ns() - beat_ns) / 1e9)


def stands_still(path: str, since_s: float) -> bool:
    """Return whether the last heartbeat is too long ago.

    :param since_s: time.monotonic() from which a missing heartbeat counts.
    """
    if time.monotonic() - since_s <= SILENCE_MAX_S:
        return False
    age = age_s(path)
    return age is None or age > SILENCE_MAX_S
