# SPDX-License-Identifier: Apache-2.0
"""Detects disturbances during a measurement, as marks for its result."""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import time

# Share of all CPUs' time that others may use without a mark.
LOAD_MAX = 0.05
# Seconds by which the clocks may diverge: slewing (500 ppm) for a minute makes
# 0.03 s.
CLOCK_STEP_S = 0.1
_PROC = pathlib.Path('/proc')


class Watch:
    """Watches clocks and the load of other processes.

    The load is the machine's user time without our own, and stolen time.
    Kernel time cannot be attributed, as traffic is the kernel's.

    :param load: whether other load affects measurements.
    """

    def __init__(self, load: bool = True) -> None:
        self._load = load
        self._ticks = os.sysconf('SC_CLK_TCK')
        self._cpus = os.sysconf('SC_NPROCESSORS_ONLN')

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[str]]:
        """Yield a list that receives marks when the context ends."""
        marks: list[str] = []
        before = self._sample()
        yield marks
        marks += self._marks(before, self._sample())

    def _sample(self):
        user, steal = machine(_PROC / 'stat')
        return (time.monotonic(), time.time(), user / self._ticks,
                steal / self._ticks, own_user_ticks() / self._ticks)

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


def machine(path: pathlib.Path) -> tuple[int, int]:
    """Return ticks of user time and stolen time of all CPUs since boot."""
    fields = path.read_text().splitlines()[0].split()[1:]
    # proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal.
    # Time of guests is included in user and nice.
    return int(fields[0]) + int(fields[1]), int(fields[7])


def own_user_ticks() -> int:
    """Return ticks of this process and its descendants, even ended ones."""
    times, parents = {}, {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The name in parentheses may contain anything.
            fields = (entry / 'stat').read_text().rpartition(')')[2].split()
            # proc_pid_stat(5): 4 is ppid, 14 and 16 utime and cutime.
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = int(fields[11]) + int(fields[13])
    own = os.getpid()
    return sum(ticks for pid, ticks in times.items()
               if _is_below(pid, own, parents))


def _is_below(pid, ancestor, parents):
    while pid and pid != ancestor:
        pid = parents.get(pid, 0)
    return pid == ancestor
