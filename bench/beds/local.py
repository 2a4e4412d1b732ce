# SPDX-License-Identifier: Apache-2.0
"""Programs that run on this machine, for hosts that are namespaces."""

from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import os
import pathlib
import queue
import shlex
import shutil
import signal
import subprocess
import threading

from bench import errors
from bench.beds import interface
from lab import paths

# Maximum of a program's output in the text of an error.
_SHOWN_CHARACTERS = 4000


class Process:
    """A program and its process group; see interface.Process."""

    def __init__(self, arguments: Sequence[str], log: pathlib.Path):
        with open(log, 'ab') as errors_to:
            self._child = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors_to, env=environment(), text=True,
                start_new_session=True)
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        # Read continuously, so that the program never blocks on its output.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def poll(self) -> int | None:
        return self._child.poll()

    def wait(self, timeout: float) -> int:
        return self._child.wait(timeout)

    def write(self, text: str) -> None:
        try:
            self._child.stdin.write(text)
            self._child.stdin.flush()
        except (BrokenPipeError, ValueError):  # Or closed here.
            raise errors.BenchError(
                f'{shlex.join(self._child.args)} takes no input any more; its '
                f'status is {self._child.poll()}') from None

    def line(self, timeout: float) -> str:
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise subprocess.TimeoutExpired(
                self._child.args, timeout) from None
        if line is None:
            self._lines.put(None)  # For the next call.
            raise EOFError(f'{shlex.join(self._child.args)} has closed its '
                           'output')
        return line

    def stop(self, timeout: float = 5) -> int:
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout)
        # Children may still be running.
        self._signal(signal.SIGKILL)
        status = self._child.wait()
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.close()
        return status

    def _signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, number)

    def _read(self):
        with self._child.stdout as output:
            for line in output:
                self._lines.put(line.rstrip('\n'))
        self._lines.put(None)


class Host:
    """A network namespace; see interface.Host.

    :param namespace: file of the namespace.
    """

    patience = 1.0

    def __init__(self, name: str, role: str, namespace: pathlib.Path,
                 folder: pathlib.Path,
                 interfaces: Mapping[str, interface.Interface]):
        self.name, self.role, self.interfaces = name, role, interfaces
        self.folder = pathlib.PurePosixPath(folder)
        self.namespace = namespace
        self._prefix = ['nsenter', f'--net={namespace}', '--']

    def run(self, arguments: Sequence[str], *, check: bool = True,
            timeout: float = 60, stdin: str | None = None,
            ) -> subprocess.CompletedProcess[str]:
        words = [str(word) for word in arguments]
        with subprocess.Popen(
                [*self._prefix, *words], text=True, env=environment(),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, start_new_session=True) as child:
            try:
                stdout, stderr = child.communicate(stdin, timeout)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                stdout, stderr = child.communicate()
                raise errors.BenchError(
                    f'{self.name}: {shlex.join(words)} did not end within '
                    f'{timeout:g} s{printed(stderr or stdout)}') from None
        done = subprocess.CompletedProcess(words, child.returncode, stdout,
                                           stderr)
        if check:
            succeeded(self.name, done)
        return done

    def start(self, arguments: Sequence[str], *, log: str) -> Process:
        return Process([*self._prefix, *(str(word) for word in arguments)],
                       pathlib.Path(self.folder / log))

    def put(self, source: pathlib.Path, name: str) -> pathlib.PurePosixPath:
        target = pathlib.Path(self.folder / name)
        target.parent.mkdir(parents=True, exist_ok=True)
        # A running program cannot be overwritten, but it can be replaced.
        new = target.with_name(f'.{target.name}.new')
        shutil.copy(source, new)
        new.replace(target)
        return self.folder / name

    def read(self, path: pathlib.PurePosixPath) -> bytes:
        try:
            return pathlib.Path(path).read_bytes()
        except OSError as error:
            raise errors.BenchError(f'{self.name}: {error}') from None


def succeeded(host: str, done: subprocess.CompletedProcess[str]) -> None:
    """:raises errors.BenchError: the program failed; with its output."""
    if done.returncode:
        raise errors.BenchError(
            f'{host}: {shlex.join(done.args)} failed ({done.returncode})'
            f'{printed(done.stderr or done.stdout)}')


def environment() -> dict[str, str]:
    """Return the minimal environment of all programs of a bed."""
    return {
        'PATH': os.pathsep.join((
            str(paths.VENV / 'bin'), '/usr/local/sbin', '/usr/local/bin',
            '/usr/sbin', '/usr/bin', '/sbin', '/bin')),
        'HOME': os.environ.get('HOME', '/root'),
        'LANG': 'C.UTF-8',
        'PYTHONUNBUFFERED': '1',
    }


def printed(text: str) -> str:
    """Return the end of an output, to be appended to an error's text."""
    text = text.strip()[-_SHOWN_CHARACTERS:]
    return f':\n{text}' if text else ''
