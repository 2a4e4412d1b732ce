# SPDX-License-Identifier: Apache-2.0
"""The cgroups of load balancers: who belongs to which, and its limits.

A load balancer has a cgroup with its limits, and in it one for each
*generation*: a master of HAProxy that was started, with all its workers. What
runs is always read from there. A process cannot leave its cgroup, and a
process id that is used again is not in it, so nothing that was written down
can be taken for something else.
"""

import contextlib
import os
import pathlib
import signal
from typing import NamedTuple

from octavia_xdp_provider.contracts import proxy_launch

CONTROLLERS = frozenset({'cpu', 'memory', 'pids'})
# Of the launcher itself: a cgroup with controllers for those below it must
# have no processes.
LAUNCHER = 'launcher'
_DEFAULT = 'octavia-xdp-proxy'
# Older workers that end with their last connection, and a check.
_PROCESSES_MAX = 16


class Unusable(Exception):
    """The machine has no cgroups as they are needed."""


class Process(NamedTuple):
    """A process, and when it was started (clock ticks after boot)."""

    pid: int
    parent: int
    started: int


def mounted() -> pathlib.Path:
    """Return where the version 2 hierarchy is mounted.

    :raises Unusable: it is not.
    """
    with open('/proc/self/mountinfo') as lines:
        for line in lines:
            fields, _, rest = line.partition(' - ')
            if rest.startswith('cgroup2 '):
                return pathlib.Path(fields.split()[4])
    raise Unusable('no hierarchy of cgroups of version 2 is mounted')


def own(root: pathlib.Path) -> pathlib.Path:
    """Return the cgroup below which load balancers have theirs if none is
    configured."""
    with open('/proc/self/cgroup') as lines:
        path = next(line for line in lines if line.startswith('0::'))
    parts = pathlib.PurePath(path[3:].strip()).parts[1:]
    if parts and parts[-1] == LAUNCHER:
        parts = parts[:-1]
    return root.joinpath(*(parts or (_DEFAULT,)))


def tasks(launch: proxy_launch.Launch) -> int:
    """Return how many threads the processes of a load balancer may have."""
    return _PROCESSES_MAX * (launch['threads'] + 1)


class Cgroups:
    """The cgroups below one of this machine.

    :param path: from the root of the hierarchy; None: see ``own``.
    :param limits: whether limits are set.
    """

    def __init__(self, path: str | None, limits: bool) -> None:
        self._limits = limits
        self._set: dict[str, tuple[int, ...]] = {}
        self._root = mounted()
        self._parent = (self._root / path.strip('/') if path
                        else own(self._root))

    def make(self) -> None:
        """Prepare the parent.

        :raises Unusable: it cannot hold load balancers to their limits.
        """
        path = self._parent
        path.mkdir(parents=True, exist_ok=True)
        if str(os.getpid()) in (path / 'cgroup.procs').read_text().split():
            (path / LAUNCHER).mkdir(exist_ok=True)
            _write(path / LAUNCHER / 'cgroup.procs', str(os.getpid()))
        if not self._limits:
            return
        line = ' '.join(f'+{name}' for name in sorted(CONTROLLERS))
        for above in reversed([path, *path.parents]):
            if above.is_relative_to(self._root) and not _has(
                    above / 'cgroup.subtree_control'):
                if not _has(above / 'cgroup.controllers'):
                    raise Unusable(
                        f'the cgroup {above} has no controllers '
                        f'{", ".join(sorted(CONTROLLERS))}: they belong to '
                        'cgroups of version 1 '
                        '(systemd.unified_cgroup_hierarchy=1 on the kernel\'s '
                        'command line changes that), or are not delegated '
                        '(Delegate=yes)')
                try:
                    _write(above / 'cgroup.subtree_control', line)
                except OSError as error:
                    raise Unusable(
                        f'controllers cannot be given to cgroups below '
                        f'{above}: {error.strerror}; it may have processes '
                        'itself') from error

    def identities(self) -> set[str]:
        """Return the ids of load balancers that have a cgroup."""
        with os.scandir(self._parent) as entries:
            return {entry.name for entry in entries
                    if entry.is_dir() and entry.name != LAUNCHER}

    def observe(self, identity: str) -> dict[int, list[Process]]:
        """Return generation → its processes. Those without any are removed.
        """
        result = {}
        try:
            names = [entry.name for entry
                     in os.scandir(self._parent / identity)
                     if entry.is_dir() and entry.name.isdecimal()]
        except FileNotFoundError:
            return {}
        for name in names:
            path = self._parent / identity / name
            processes = [process for pid in _pids(path)
                         if (process := read(pid)) is not None]
            if processes:
                result[int(name)] = processes
            else:
                with contextlib.suppress(OSError):
                    path.rmdir()
        return result

    def prepare(self, identity: str, generation: int,
                launch: proxy_launch.Launch) -> None:
        """Create the cgroup of a generation."""
        self.limit(identity, launch)
        (self._parent / identity / str(generation)).mkdir(exist_ok=True)

    def limit(self, identity: str, launch: proxy_launch.Launch) -> None:
        """Set the limits of a load balancer, unless they are."""
        path = self._parent / identity
        limits = (launch['memory_bytes'], launch['cpu_weight'], tasks(launch))
        path.mkdir(exist_ok=True)
        if not self._limits or self._set.get(identity) == limits:
            return
        _write(path / 'memory.max', str(launch['memory_bytes']))
        with contextlib.suppress(FileNotFoundError):  # without swap
            _write(path / 'memory.swap.max', '0')
        _write(path / 'cpu.weight', str(launch['cpu_weight']))
        _write(path / 'pids.max', str(tasks(launch)))
        self._set[identity] = limits

    def enter(self, identity: str, generation: int, pid: int) -> None:
        """Move a process to a generation."""
        _write(self._parent / identity / str(generation) / 'cgroup.procs',
               str(pid))

    def kill(self, identity: str, generation: int) -> None:
        """Kill all processes of a generation, also those that fork."""
        with contextlib.suppress(FileNotFoundError):
            _write(self._parent / identity / str(generation) / 'cgroup.kill',
                   '1')

    def send(self, identity: str, generation: int, process: Process,
             number: signal.Signals) -> bool:
        """Send a signal, if the process is still one of the generation.

        :returns: False if it would not have handled the signal. HAProxy's
            master ignores signals for a moment after it has its worker.
        """
        path = self._parent / identity / str(generation)
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(process.pid)
            try:
                # The handle is of whoever had the id when it was opened.
                if process.pid in _pids(path) and read(process.pid) == process:
                    if not _handles(process.pid, number):
                        return False
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)
        return True

    def remove(self, identity: str) -> bool:
        """Remove the cgroup of a load balancer; return whether it is gone."""
        path = self._parent / identity
        self._set.pop(identity, None)
        try:
            for entry in os.scandir(path):
                if entry.is_dir():
                    os.rmdir(entry.path)
            path.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def master(processes: list[Process]) -> Process | None:
    """Return the process that the others descend from."""
    pids = {process.pid for process in processes}
    roots = [process for process in processes if process.parent not in pids]
    return min(roots, key=lambda root: root.started, default=None)


def workers(processes: list[Process]) -> set[Process]:
    """Return the children of the master."""
    top = master(processes)
    return {process for process in processes
            if top and process.parent == top.pid}


def read(pid: int) -> Process | None:
    """Return a process of this machine; None if it has ended."""
    try:
        with open(f'/proc/{pid}/stat', 'rb') as file:
            # Its name may have blanks and brackets.
            fields = file.read().rpartition(b')')[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in (b'Z', b'X'):
        return None
    return Process(pid, int(fields[1]), int(fields[19]))


def _handles(pid: int, number: signal.Signals) -> bool:
    with contextlib.suppress(FileNotFoundError), open(
            f'/proc/{pid}/status') as lines:
        for line in lines:
            name, _, mask = line.partition(':')
            if name == 'SigCgt':
                return bool(int(mask, 16) >> (number - 1) & 1)
    return False


def _pids(path: pathlib.Path) -> list[int]:
    try:
        return [int(pid) for pid
                in (path / 'cgroup.procs').read_text().split()]
    except (FileNotFoundError, OSError):
        return []


def _has(path: pathlib.Path) -> bool:
    return set(path.read_text().split()) >= CONTROLLERS


def _write(path: pathlib.Path, text: str) -> None:
    # One call of write(), unbuffered: the kernel's answer is to that.
    with open(path, 'wb', buffering=0) as file:
        file.write(text.encode())
