# SPDX-License-Identifier: Apache-2.0
"""What else went on while something was measured: marks for its result."""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import time

# Of all CPUs' time: what else used more makes a result doubtful.
LOAD_MAX = 0.05
# Between the clocks at both ends of a step: slewing (500 ppm) of a minute is
# 0.03 s.
CLOCK_STEP_S = 0.1
_PROC = pathlib.Path('/proc')


class Watch:
    """Looks at clocks and at processes that are not ours.

    User time of the whole machine without ours, and time that a hypervisor
    took: kernel time cannot be told apart, as traffic is the kernel's.

    :param load: whether other load changes what is measured.
    """

    def __init__(self, load: bool = True) -> None:
        self._load = load
        self._ticks = os.sysconf('SC_CLK_TCK')
        self._cpus = os.sysconf('SC_NPROCESSORS_ONLN')

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[str]]:
        """The list gets its marks when the context ends."""
        marks: list[str] = []
        before = self._look()
        yield marks
        marks += self._marks(before, self._look())

    def _look(self):
        user, steal = machine(_PROC / 'stat')
        return (time.monotonic(), time.time(), user / self._ticks,
                steal / self._ticks, own_user_ticks() / self._ticks)

    def _marks(self, before, after):
        took, wall, user, steal, own = (
            two - one for one, two in zip(before, after, strict=True))
        if abs(wall - took) > CLOCK_STEP_S:
            yield f'clock step: it was set by {wall - took:+.3f} s meanwhile'
        if took < 0.1 or not self._load:
            return  # Of ticks of 10 ms too few are in it.
        for what, used in (('other processes', user - own),
                           ('the hypervisor', steal)):
            share = used / took / self._cpus
            if share > LOAD_MAX:
                yield (f'other load: {what} took {share:.0%} of '
                       f'{self._cpus} CPUs')


def machine(path: pathlib.Path) -> tuple[int, int]:
    """Ticks of user time and of stolen time, of all CPUs since the boot."""
    fields = path.read_text().splitlines()[0].split()[1:]
    # proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal;
    # guests' time is in user and nice.
    return int(fields[0]) + int(fields[1]), int(fields[7])


def own_user_ticks() -> int:
    """Of this process and all below it, also those that have ended."""
    times, parents = {}, {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The name in parentheses may have anything in it.
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
