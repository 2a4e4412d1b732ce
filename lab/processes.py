# SPDX-License-Identifier: Apache-2.0
"""Processes of a lab: start, watch, signal and stop them.

Each process has a name that is unique in its lab, a log file of that name,
and a record in the lab's state, so that a later command can stop it. A
record holds the start time too: a recycled process id is never signalled.
"""

import contextlib
import dataclasses
import os
import pathlib
import signal as signals
import subprocess
import time

from lab import paths

SECTION = 'processes'
LOG_TAIL = 25

# Our own children, so that they are reaped when they end.
_children = {}


@dataclasses.dataclass
class Process:
    """What the lab remembers about a process that it started."""

    name: str
    host: str | None
    argv: list
    env: dict
    cwd: str | None
    log: str
    pid: int
    started: int | None

    @property
    def alive(self):
        """Whether this very process still runs."""
        child = _children.get(self.pid)
        if child is not None and child.poll() is not None:
            return False
        return self.started is not None and (
            start_time(self.pid) == self.started)

    def log_tail(self, lines=LOG_TAIL):
        """The last lines of the process's log file."""
        try:
            with open(self.log, errors='replace') as file:
                return ''.join(file.readlines()[-lines:]).rstrip()
        except FileNotFoundError:
            return ''


def start(lab, host, name, argv, env=None, cwd=None, ready=None, timeout=60):
    """Start a process in a host's namespace and return its record.

    `host` None means the machine's own namespace. `env` is added to a small
    clean environment. With `ready`, a function without arguments, wait until
    it returns something true; a process that ends before that is an error,
    and the error shows the end of its log.
    """
    old = find(lab, name)
    if old and old.alive:
        raise paths.LabError(f'{name} runs already, process {old.pid}')
    argv = [str(item) for item in argv]
    env = {key: str(value) for key, value in (env or {}).items()}
    log = lab.logs / f'{name}.log'
    with open(log, 'ab') as output:
        child = subprocess.Popen(
            _in_namespace(lab, host, argv), env=_environment(env), cwd=cwd,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True)
    _children[child.pid] = child
    process = Process(name, host, argv, env, str(cwd) if cwd else None,
                      str(log), child.pid, start_time(child.pid))
    lab.state.put(SECTION, name, dataclasses.asdict(process))
    if ready:
        _wait_ready(process, ready, timeout)
    return process


def restart(lab, name, ready=None, timeout=60):
    """Stop a process if it still runs; start it again as it was started."""
    old = _known(lab, name)
    if old.alive:
        _end(old, 10)
    return start(lab, old.host, name, old.argv, old.env, old.cwd, ready,
                 timeout)


def stop(lab, name, timeout=10):
    """TERM a process, KILL it after the timeout, and forget it."""
    process = find(lab, name)
    if process is None:
        return
    _end(process, timeout)
    lab.state.remove(SECTION, name)


def stop_all(lab, timeout=15):
    """TERM all processes at once, newest first, and wait for their end.

    What has not ended by then is left to namespaces.delete().
    """
    running = [process for process in reversed(all_of(lab))
               if process.alive]
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signals.SIGTERM)
    with contextlib.suppress(paths.LabError):
        wait_for('end', lambda: not any(
            process.alive for process in running), timeout, 0.05)


def reap():
    """Collect those of our own children that have ended, and forget them."""
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            _children.pop(pid, None)


def kill(lab, name, signal=signals.SIGKILL):
    """Send a signal to a process; after SIGKILL wait until it is gone."""
    process = _known(lab, name)
    if not process.alive:
        raise paths.LabError(f'{name} does not run')
    os.kill(process.pid, signal)
    if signal == signals.SIGKILL:
        wait_for(f'the end of {name}', lambda: not process.alive, 10, 0.01)


def alive(lab, name):
    """Whether the lab's process of this name runs."""
    process = find(lab, name)
    return process is not None and process.alive


def find(lab, name):
    """The record of a process, or None."""
    record = lab.state.get(SECTION, name)
    return Process(**record) if record else None


def all_of(lab):
    """The records of all processes of a lab, dead or alive, oldest first."""
    records = lab.state.section(SECTION).values()
    return sorted((Process(**record) for record in records),
                  key=lambda process: process.started or 0)


def run(lab, host, argv, env=None, cwd=None, timeout=120, check=True,
        input=None):
    """Run a command in a host's namespace to its end.

    Returns subprocess.CompletedProcess with text output; with `check` a
    failure raises LabError that shows what the command said.
    """
    argv = [str(item) for item in argv]
    try:
        done = subprocess.run(
            _in_namespace(lab, host, argv), env=_environment(env), cwd=cwd,
            timeout=timeout, input=input, text=True, capture_output=True)
    except subprocess.TimeoutExpired:
        raise paths.LabError(
            f'{" ".join(argv)} did not end within {timeout} s'
        ) from None
    if check and done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-4000:]
        raise paths.LabError(
            f'{" ".join(argv)} failed ({done.returncode}):\n{said}')
    return done


def become(lab, host, argv, env):
    """Replace this very process by a command in a host's namespace."""
    path = _environment(None)['PATH']
    env = {**env, 'PATH': f'{path}:{env.get("PATH", "")}'}
    command = _in_namespace(lab, host, argv)
    os.execvpe(command[0], command, env)


def wait_for(what, condition, timeout, interval=0.1):
    """Call condition() until it returns something true, and return that.

    :param what: what does not come if it fails: text, or a function that
        makes it then.
    """
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            text = what() if callable(what) else what
            raise paths.LabError(f'waited {timeout} s in vain for {text}')
        time.sleep(interval)


def start_time(pid):
    """When a process started, in clock ticks since boot; None if it's dead.

    A zombie counts as dead.
    """
    try:
        stat = pathlib.Path(f'/proc/{pid}/stat').read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field, the command in parentheses, may contain anything.
    fields = stat.rpartition(')')[2].split()
    return None if fields[0] in 'ZX' else int(fields[19])


def _known(lab, name):
    process = find(lab, name)
    if process is None:
        raise paths.LabError(f'lab {lab.name} has no process {name}')
    return process


def _end(process, timeout):
    if not process.alive:
        return
    os.kill(process.pid, signals.SIGTERM)
    try:
        wait_for('end', lambda: not process.alive, timeout, 0.02)
    except paths.LabError:
        # A process of ours leads its own process group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signals.SIGKILL)
        wait_for(f'end of {process.name} after SIGKILL',
                 lambda: not process.alive, 10, 0.02)


def _wait_ready(process, ready, timeout):
    def ready_or_dead():
        return not process.alive or ready()

    try:
        wait_for(f'answer from {process.name}', ready_or_dead, timeout)
    except paths.LabError as error:
        raise paths.LabError(
            f'{error}; the end of {process.log}:\n{process.log_tail()}'
        ) from None
    if not process.alive:
        raise paths.LabError(f'{process.name} ended at once; the end of '
                             f'{process.log}:\n{process.log_tail()}')


def _in_namespace(lab, host, argv):
    if host is None:
        return argv
    # Not "ip netns exec", which hides later mounts in a mount namespace.
    return ['nsenter', f'--net=/run/netns/{lab.namespace(host)}', '--', *argv]


def _environment(extra):
    return {
        'PATH': os.pathsep.join((
            str(paths.VENV / 'bin'), '/usr/local/sbin', '/usr/local/bin',
            '/usr/sbin', '/usr/bin', '/sbin', '/bin')),
        'HOME': os.environ.get('HOME', '/root'),
        'LANG': 'C.UTF-8',
        'PYTHONUNBUFFERED': '1',
        # Names are in no DNS here, and dnspython, for which eventlet would
        # look, takes half of a server's start; with trio beside it, which
        # Selenium needs, it would not even start.
        'EVENTLET_NO_GREENDNS': 'yes',
        **(extra or {}),
    }
