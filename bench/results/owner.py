# SPDX-License-Identifier: Apache-2.0
"""The process that records a run, and whether it is alive."""

import dataclasses
import os
import pathlib

from lab import processes

_BOOT = pathlib.Path('/proc/sys/kernel/random/boot_id')
_NAMESPACE = pathlib.Path('/proc/self/ns/pid')


@dataclasses.dataclass(frozen=True)
class Owner:
    """A process, distinguishable from a later one with the same id.

    :ivar boot: boot of the machine, and the PID namespace.
    :ivar started: clock ticks since boot.
    """

    boot: str
    pid: int
    started: int

    def is_dead(self) -> bool:
        """Whether the process is dead; False for other PID namespaces, whose
        processes cannot be looked up from here."""
        here = current()
        boot, namespace = self.boot.split('/')
        own_boot, own_namespace = here.boot.split('/')
        if boot != own_boot:
            return True
        if namespace != own_namespace:
            return False
        return processes.start_time(self.pid) != self.started


def current() -> Owner:
    """Return this process."""
    pid = os.getpid()
    started = processes.start_time(pid)
    assert started is not None
    return Owner(f'{_BOOT.read_text().strip()}/{_NAMESPACE.stat().st_ino}',
                 pid, started)
