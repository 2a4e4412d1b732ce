# SPDX-License-Identifier: Apache-2.0
"""Runs on this machine, and removal of what dead runs have left.

The names of all that a run makes contain the checkout's and the run's name.
The process of a run holds a lock. If nobody holds it, everything with that
name is removed: by the next run, by `octavia-xdp-bench clean`, or at once by
the run's guard, a process that waits for the lock.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

from bench import errors
from lab import namespaces
from lab import paths
from lab import processes
from lab import state

FOLDER = paths.BUILD / 'bench/run'
NAME = re.compile(r'[a-z0-9][a-z0-9-]{0,31}')
_CHECKOUT = hashlib.sha256(str(paths.CHECKOUT).encode()).hexdigest()[:6]
_PREFIX = f'oxb-{_CHECKOUT}.'
_LOCK = 'lock'
_RECORD = 'run.json'


class RunLab(paths.Lab):
    """Names and folders of a run, for the lab's functions that make hosts."""

    def __init__(self, run: str):
        if not NAME.fullmatch(run):
            raise errors.BenchError(
                f'{run!r} is no name of a run: lower-case letters, digits and '
                'dashes, 32 at most')
        self.name = run
        self.id = f'{_CHECKOUT}.{run}'
        self.prefix = f'{_PREFIX}{run}.'
        self.directory = FOLDER / run
        # Short, because it contains sockets.
        self.run_directory = pathlib.Path('/run') / f'{_PREFIX}{run}'
        self.logs = self.directory / 'logs'
        self.state = state.State(self.directory / 'state.json')


@dataclasses.dataclass(frozen=True)
class Left:
    """A dead run, whose leftovers are removed.

    :param owner: the run's process, if known.
    """

    run: str
    owner: int | None


@contextlib.contextmanager
def hold(run: str) -> Iterator[RunLab]:
    """Hold a run's lock, which protects what has its name; then clean up.

    :raises errors.BenchError: another process has this run.
    """
    lab = RunLab(run)
    with contextlib.ExitStack() as stack:
        with _all_locked():
            for left in _dead():
                _remove_left(left)
            lab.directory.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(open(lab.directory / _LOCK, 'a'))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise errors.BenchError(
                    f'run {run} has a test bed already, of process '
                    f'{_owner(lab)}') from None
            (lab.directory / _RECORD).write_text(json.dumps({
                'pid': os.getpid(),
                'started': processes.start_time(os.getpid())}))
        lab.logs.mkdir(exist_ok=True)
        lab.run_directory.mkdir(mode=0o755)
        stack.callback(remove, lab)
        stack.enter_context(_guarded(lab))
        yield lab


def clean() -> list[Left]:
    """Remove what dead runs have left; return those runs."""
    with _all_locked():
        dead = _dead()
        for left in dead:
            _remove_left(left)
        return dead


def living() -> list[str]:
    """Return the runs whose process is alive."""
    return [run for run in _recorded() if _lives(run)]


def remove(lab: RunLab) -> None:
    """Kill and remove everything with the run's name."""
    for process in processes.all_of(lab):
        if process.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    for host in namespaces.hosts(lab):
        namespaces.delete(lab, host)
    _unmount(lab.run_directory)
    shutil.rmtree(lab.run_directory, ignore_errors=True)
    shutil.rmtree(lab.directory, ignore_errors=True)


@contextlib.contextmanager
def _guarded(lab):
    """Start a process that removes the run at once if this one is killed.

    It waits in flock(1), which is small.
    """
    with open(lab.logs / 'guard.log', 'ab') as log:
        guard = subprocess.Popen(
            ['flock', lab.directory / _LOCK, sys.executable, '-P', '-m',
             'bench.beds.guard', lab.name], cwd=paths.CHECKOUT,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
            env={**os.environ, 'PYTHONPATH': str(paths.CHECKOUT)})
    try:
        yield
    finally:
        guard.terminate()
        guard.wait()


@contextlib.contextmanager
def _all_locked():
    """Keep runs from starting and from being removed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / f'.{_LOCK}', 'a') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _dead():
    return [Left(run, _owner(RunLab(run))) for run in sorted(_recorded())
            if not _lives(run)]


def _recorded():
    """Return all runs with any leftovers, with or without a record."""
    names = {path.name for path in FOLDER.glob('*')
             if NAME.fullmatch(path.name)}
    for folder in namespaces.NETNS, pathlib.Path('/run'):
        for path in folder.glob(f'{_PREFIX}*'):
            run = path.name.removeprefix(_PREFIX).partition('.')[0]
            if NAME.fullmatch(run):
                names.add(run)
    return names


def _lives(run):
    try:
        with open(RunLab(run).directory / _LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _owner(lab):
    try:
        return json.loads((lab.directory / _RECORD).read_text())['pid']
    except (OSError, ValueError, KeyError):
        return None


def _remove_left(left):
    # Its guard may be removing it too, or may have been killed.
    try:
        remove(RunLab(left.run))
    except paths.LabError as error:
        raise errors.BenchError(
            f'what run {left.run} left cannot be removed: {error}') from None


def _unmount(folder):
    mounted = [line.split()[4] for line in pathlib.Path(
        '/proc/self/mountinfo').read_text().splitlines()]
    for target in reversed(mounted):
        if pathlib.PurePath(target).is_relative_to(folder):
            subprocess.run(['umount', '--lazy', target], check=False)
