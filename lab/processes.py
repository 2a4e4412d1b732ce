# SPDX-License-Identifier: Apache-2.0
"""Start, watch, signal and stop processes of a lab.

Each process has a name that is unique in its lab, a log file of that name,
and a record in the lab's state, so that a later command can stop it. The
record has the start time, so that a recycled process id is not signalled.
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

# Children of this process, to reap them when they end.
_children = {}


@dataclasses.dataclass
class Process:
    """The record of a process that the lab started."""

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
        """Whether the process runs; not another one with its id."""
        child = _children.get(self.pid)
        if child is not None and child.poll() is not None:
            return False
        return self.started is not None and (
            start_time(self.pid) == self.started)

    def log_tail(self, lines=LOG_TAIL):
        """Return the last lines of the process's log file."""
        try:
            with open(self.log, errors='replace') as file:
                return ''.join(file.readlines()[-lines:]).rstrip()
        except FileNotFoundError:
            return ''


def start(lab, host, name, argv, env=None, cwd=None, ready=None, timeout=60):
    """Start a process in a host's namespace and return its record.

    `host` None means the machine's own namespace. `env` is added to a small
    clean environment. With `ready`, a function without arguments, wait until
    it returns a true value; if the process ends before that, the error has
    the end of its log.
    """
    old = find(lab, name)
    if old and old.alive:
        raise paths.LabError(f'{name} already runs, process {old.pid}')
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
    """Stop a process if it runs, and start it with the same arguments."""
    old = _find_or_raise(lab, name)
    if old.alive:
        _terminate(old, 10)
    return start(lab, old.host, name, old.argv, old.env, old.cwd, ready,
                 timeout)


def stop(lab, name, timeout=10):
    """Terminate a process, kill it after the timeout, delete its record."""
    process = find(lab, name)
    if process is None:
        return
    _terminate(process, timeout)
    lab.state.remove(SECTION, name)


def stop_all(lab, timeout=15):
    """Terminate all processes at once, newest first, and wait for their end.

    namespaces.delete() kills those that have not ended after the timeout.
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
    """Reap children of this process that have ended."""
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            _children.pop(pid, None)


def kill(lab, name, signal=signals.SIGKILL):
    """Send a signal to a process; after SIGKILL wait until it is gone."""
    process = _find_or_raise(lab, name)
    if not process.alive:
        raise paths.LabError(f'{name} does not run')
    os.kill(process.pid, signal)
    if signal == signals.SIGKILL:
        wait_for(f'the end of {name}', lambda: not process.alive, 10, 0.01)


def alive(lab, name):
    """Return whether the lab's process of this name runs."""
    process = find(lab, name)
    return process is not None and process.alive


def find(lab, name):
    """Return the record of a process, or None."""
    record = lab.state.get(SECTION, name)
    return Process(**record) if record else None


def all_of(lab):
    """Return the records of all processes, dead or alive, oldest first."""
    records = lab.state.section(SECTION).values()
    return sorted((Process(**record) for record in records),
                  key=lambda process: process.started or 0)


def run(lab, host, argv, env=None, cwd=None, timeout=120, check=True,
        input=None):
    """Run a command in a host's namespace to its end.

    Return subprocess.CompletedProcess with text output; with `check` a
    failure raises LabError with the command's output.
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
        output = (done.stderr.strip() or done.stdout.strip())[-4000:]
        raise paths.LabError(
            f'{" ".join(argv)} failed ({done.returncode}):\n{output}')
    return done


def become(lab, host, argv, env):
    """Replace this process by a command in a host's namespace."""
    path = _environment(None)['PATH']
    env = {**env, 'PATH': f'{path}:{env.get("PATH", "")}'}
    command = _in_namespace(lab, host, argv)
    os.execvpe(command[0], command, env)


def wait_for(what, condition, timeout, interval=0.1):
    """Call condition() until it returns a true value, and return that.

    :param what: the awaited event, for the error: text, or a function that
        returns it then.
    """
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            text = what() if callable(what) else what
            raise paths.LabError(
                f'timed out after {timeout} s waiting for {text}')
        time.sleep(interval)


def start_time(pid):
    """Return a process's start in clock ticks since boot; None if it is dead.

    A zombie counts as dead.
    """
    try:
        stat = pathlib.Path(f'/proc/{pid}/stat').read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field, the command in parentheses, may contain anything.
    fields = stat.rpartition(')')[2].split()
    return None if fields[0] in 'ZX' else int(fields[19])


def _find_or_raise(lab, name):
    process = find(lab, name)
    if process is None:
        raise paths.LabError(f'lab {lab.name} has no process {name}')
    return process


def _terminate(process, timeout):
    if not process.alive:
        return
    os.kill(process.pid, signals.SIGTERM)
    try:
        wait_for('end', lambda: not process.alive, timeout, 0.02)
    except paths.LabError:
        # start() made the process the leader of its own process group.
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
    # "ip netns exec" would hide later mounts in its own mount namespace.
    return ['nsenter', f'--net=/run/netns/{lab.namespace(host)}', '--', *argv]


def _environment(extra):
    return {
        'PATH': os.pathsep.join((
            str(paths.VENV / 'bin'), '/usr/local/sbin', '/usr/local/bin',
            '/usr/sbin', '/usr/bin', '/sbin', '/bin')),
        'HOME': os.environ.get('HOME', '/root'),
        'LANG': 'C.UTF-8',
        'PYTHONUNBUFFERED': '1',
        # There is no DNS here. dnspython, which eventlet would import, takes
        # half of a server's start, and fails if trio is installed, which
        # Selenium needs.
        'EVENTLET_NO_GREENDNS': 'yes',
        **(extra or {}),
    }
