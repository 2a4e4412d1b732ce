# SPDX-License-Identifier: Apache-2.0
"""Detects disturbances during a measurement, as marks for its result."""

from collections.abc import Iterator
import contextlib
import time

import psutil

# Share of all CPUs' time that others may use without a mark.
LOAD_MAX = 0.05
# Seconds by which the clocks may diverge: slewing (500 ppm) for a minute makes
# 0.03 s.
CLOCK_STEP_S = 0.1


class Watch:
    """Watches clocks and the load of other processes.

    The load is the machine's user time without our own, and stolen time.
    Kernel time cannot be attributed, as traffic is the kernel's.

    :param load: whether other load affects measurements.
    """

    def __init__(self, load: bool = True) -> None:
        self._load = load
        self._cpus = psutil.cpu_count()

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[str]]:
        """Yield a list that receives marks when the context ends."""
        marks: list[str] = []
        before = self._sample()
        yield marks
        marks += self._marks(before, self._sample())

    def _sample(self):
        times = psutil.cpu_times()
        # Time of guests is included in user and nice.
        return (time.monotonic(), time.time(), times.user + times.nice,
                times.steal, _own_user_seconds())

    def _marks(self, before, after):
        took, wall, user, steal, own = (
            last - first for first, last in zip(before, after, strict=True))
        if abs(wall - took) > CLOCK_STEP_S:
            yield f'clock step: it was set by {wall - took:+.3f} s meanwhile'
        if took < 0.1 or not self._load:
            return  # Too short for ticks of 10 ms.
        for what, used in (('other processes', user - own),
                           ('the hypervisor', steal)):
            share = used / took / self._cpus
            if share > LOAD_MAX:
                yield (f'other load: {what} took {share:.0%} of '
                       f'{self._cpus} CPUs')


def _own_user_seconds():
    """Return user time of this process and its descendants, even ended ones.
    """
    own = psutil.Process()
    total = 0.0
    for process in own, *own.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.children_user
    return total
