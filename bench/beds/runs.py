# SPDX-License-Identifier: Apache-2.0
"""Runs on this machine, each with an agent that removes what the run made.

The names of all that a run makes contain the checkout's and the run's name.
Its agent (agent.py) ends with the run's process, however that ends: it kills
what it has started and undoes what was registered. If both are killed, the
next agent on this machine does it, or `octavia-xdp-bench clean`.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import re
import subprocess
import sys

from bench import errors
from bench.beds import agent
from bench.beds import channel
from lab import paths

FOLDER = paths.BUILD / 'bench/run'
NAME = re.compile(r'[a-z0-9][a-z0-9-]{0,31}')
CHECKOUT = hashlib.sha256(str(paths.CHECKOUT).encode()).hexdigest()[:6]
START_S = 60


@dataclasses.dataclass(frozen=True)
class Run:
    """:ivar id: the agent's name, unique on this machine.
    :ivar directory: for files of this process; removed with the run.
    :ivar machine: this machine, as a host; its folder is that of the agent.
    """

    id: str
    directory: pathlib.Path
    machine: channel.Host


def id_of(run: str) -> str:
    return f'{CHECKOUT}.{run}'


def namespace(run: str, host: str) -> str:
    """Return the network namespace of a run's host."""
    return f'oxb-{id_of(run)}.{host}'


@contextlib.contextmanager
def hold(run: str) -> Iterator[Run]:
    """Run an agent; when the context ends, remove everything of the run.

    :raises errors.BenchError: another process has this run.
    """
    if not NAME.fullmatch(run):
        raise errors.BenchError(
            f'{run!r} is no name of a run: lower-case letters, digits and '
            'dashes, 32 at most')
    directory = FOLDER / run
    directory.mkdir(parents=True, exist_ok=True)
    with _agent(id_of(run), directory / 'agent.log') as asked:
        machine = channel.Host(asked, 'machine', '', asked.ready(START_S), {})
        machine.undo(['rm', '-rf', directory])
        yield Run(id_of(run), directory, machine)


def clean() -> list[str]:
    """Remove what dead runs have left; return the ids of those runs."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with _agent(f'{CHECKOUT}.clean-{os.getpid()}',
                FOLDER / 'clean.log') as asked:
        asked.ready(START_S)
        return asked.removed


def living() -> list[str]:
    """Return the ids of runs whose agent is alive."""
    return sorted(path.name for path in agent.FOLDERS.glob('*')
                  if path.is_dir() and agent.locked(path))


@contextlib.contextmanager
def _agent(name, log):
    with open(log, 'ab') as output:
        child = subprocess.Popen(
            [sys.executable, '-P', agent.__file__, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output,
            env=environment(), start_new_session=True)
    asked = channel.Channel(
        'this machine', child.stdin, child.stdout,
        lambda: text_of(log))
    try:
        yield asked
    finally:
        asked.close()
        child.wait()


def text_of(log: pathlib.Path) -> str:
    """Return what a program has logged."""
    try:
        return log.read_text(errors='replace').strip()
    except FileNotFoundError:
        return 'the bed has been taken down'


def environment() -> dict[str, str]:
    """Return the minimal environment of all programs of a bed."""
    return {
        'PATH': os.pathsep.join((
            str(paths.VENV / 'bin'), '/usr/local/sbin', '/usr/local/bin',
            '/usr/sbin', '/usr/bin', '/sbin', '/bin')),
        'HOME': os.environ.get('HOME', '/root'),
    }
