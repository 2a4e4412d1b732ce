# SPDX-License-Identifier: Apache-2.0
"""Hosts on a machine with an agent that is reached through a byte stream.

agent.py is the other end and describes requests and answers.
"""

import base64
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
import contextlib
import dataclasses
import json
import pathlib
import queue
import shlex
import subprocess
import threading
from typing import Any
from typing import BinaryIO

from bench import errors
from bench.beds import agent

SOURCE = pathlib.Path(agent.__file__).read_bytes()
# Reads the agent's source and runs it, which reads the rest of the input.
# Argument 1 is the agent's name, 2 the length of its source in bytes.
BOOT = ('import sys\n'
        'exec(compile(sys.stdin.buffer.read(int(sys.argv[2])), "agent", '
        '"exec"))')
# Longer than it takes to detect a dead connection.
ANSWER_S = 60
# Bytes of a file in one message.
CHUNK = 128 * 1024
# Maximum of a program's output in the text of an error.
_SHOWN_CHARACTERS = 4000


class Channel:
    """Requests to one agent; thread-safe.

    :param name: name of the machine, for errors.
    :param why: returns why the connection ended, as far as known.
    :param patience: seconds here that a second of the agent's may take.
    :ivar removed: dead agents whose leftovers this one has removed.
    """

    def __init__(self, name: str, requests: BinaryIO, answers: BinaryIO,
                 why: Callable[[], str], patience: float = 1.0):
        self.name, self.patience = name, patience
        self.removed: list[str] = []
        self._requests, self._answers, self._why = requests, answers, why
        self._lock = threading.Lock()
        self._number = 0
        self._waiting: dict[int, futures.Future] = {}
        self._events: dict[int, _Events] = {}
        self._lost: str | None = None
        self._ready: futures.Future = futures.Future()
        threading.Thread(target=self._read, daemon=True).start()

    def ready(self, timeout: float) -> pathlib.PurePosixPath:
        """Wait for the agent and return its folder.

        :raises errors.BenchError: the agent has not started.
        """
        answer = self._result(self._ready, timeout, 'its agent')
        self.removed = answer['removed']
        return pathlib.PurePosixPath(answer['folder'])

    def ask(self, operation: str, timeout: float = ANSWER_S,
            **arguments: Any) -> dict[str, Any]:
        """:raises errors.BenchError: it failed or was not answered in time."""
        future: futures.Future = futures.Future()
        with self._lock:
            if self._lost is not None:
                raise errors.BenchError(self._lost)
            self._number += 1
            self._waiting[self._number] = future
            line = json.dumps({'id': self._number, 'op': operation,
                               **arguments}).encode() + b'\n'
            # If the agent is gone, the reader notices and records why.
            with contextlib.suppress(OSError, ValueError):
                self._requests.write(line)
                self._requests.flush()
        answer = self._result(future, timeout * self.patience, operation)
        if 'error' in answer:
            raise errors.BenchError(f'{self.name}: {answer["error"]}')
        return answer

    def events(self, process: int) -> '_Events':
        """Return the events of a process since its start."""
        with self._lock:
            return self._events_of(process)

    def close(self) -> None:
        """End the agent and everything that it has started."""
        with self._lock, contextlib.suppress(OSError):
            self._requests.close()

    def _result(self, future, timeout, what):
        try:
            return future.result(timeout)
        except futures.TimeoutError:
            raise errors.BenchError(
                f'{self.name}: no answer within {timeout:g} s ({what})'
            ) from None

    def _read(self):
        try:
            for line in self._answers:
                self._take(json.loads(line))
            text = 'the connection was closed'
        except (OSError, ValueError) as error:
            text = str(error)
        finally:
            self._answers.close()
        why = self._why()
        with self._lock:
            self._lost = f'{self.name}: the connection is lost: {why or text}'
            lost = errors.BenchError(self._lost)
            for future in (self._ready, *self._waiting.values()):
                if not future.done():
                    future.set_exception(lost)
            for events in self._events.values():
                events.lose(lost)

    def _take(self, answer):
        with self._lock:
            if 'process' in answer and 'id' not in answer:
                self._events_of(answer['process']).take(answer)
            elif 'id' in answer:
                future = self._waiting.pop(answer['id'])
            else:
                future = self._ready
        if 'process' not in answer or 'id' in answer:
            future.set_result(answer)

    def _events_of(self, process):
        # The first event may precede the answer with the process's number.
        return self._events.setdefault(process, _Events())


class _Events:
    """Output lines and the exit status of a process."""

    def __init__(self):
        self.lines: queue.SimpleQueue = queue.SimpleQueue()
        self.status: futures.Future = futures.Future()

    def take(self, event):
        if 'status' in event:
            self.status.set_result(event['status'])
        else:
            self.lines.put(event.get('line'))

    def lose(self, error):
        self.lines.put(error)
        if not self.status.done():
            self.status.set_exception(error)


@dataclasses.dataclass(frozen=True)
class Interface:
    """An end of a link, on its host.

    :param name: name in the host's kernel.
    :param link: name of the declared link.
    :param addresses: with prefix lengths, as in '192.0.2.1/24'.
    :param peers: names of the hosts at the link's other ends.
    """

    name: str
    link: str
    mac: str
    mtu: int
    addresses: tuple[str, ...]
    peers: tuple[str, ...]


class Process:
    """A program that runs on the machine."""

    def __init__(self, channel: Channel, number: int, text: str):
        self._channel, self._number, self._text = channel, number, text
        self._events = channel.events(number)

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        status = self._events.status
        return status.result() if status.done() else None

    def wait(self, timeout: float) -> int:
        """:raises subprocess.TimeoutExpired: it is still running."""
        try:
            return self._events.status.result(
                timeout * self._channel.patience)
        except futures.TimeoutError:
            raise subprocess.TimeoutExpired(self._text, timeout) from None

    def write(self, text: str) -> None:
        """Write to its standard input and flush."""
        self._channel.ask('write', process=self._number, text=text)

    def line(self, timeout: float) -> str:
        """Return the next line of its standard output, without line end.

        :raises EOFError: it has closed its output.
        :raises subprocess.TimeoutExpired: no line came.
        """
        try:
            line = self._events.lines.get(
                timeout=timeout * self._channel.patience)
        except queue.Empty:
            raise subprocess.TimeoutExpired(self._text, timeout) from None
        if not isinstance(line, str):
            self._events.lines.put(line)  # For the next call.
            if line is not None:
                raise line
            raise EOFError(f'{self._text} has closed its output')
        return line

    def stop(self, timeout: float = 5) -> int:
        """Send TERM, KILL after the timeout; return its exit status."""
        return self._channel.ask(
            'stop', timeout + ANSWER_S, process=self._number,
            timeout_s=timeout)['status']


class Host:
    """The machine or a network namespace of it.

    :param prefix: words before commands, to run them in the namespace.
    :ivar interfaces: by the name of their link.
    :ivar folder: a folder on the host that exists as long as the bed.
    :ivar patience: seconds of this machine that a second of the host may take;
        multiply timeouts by this machine's clock by it.
    """

    def __init__(self, channel: Channel, name: str, role: str,
                 folder: pathlib.PurePosixPath,
                 interfaces: Mapping[str, Interface],
                 prefix: Sequence[str] = ()):
        self.name, self.role, self.folder = name, role, folder
        self.interfaces = interfaces
        self.patience = channel.patience
        self._channel, self._prefix = channel, list(prefix)

    def within(self, namespace: str, name: str, role: str) -> 'Host':
        """Return a network namespace of the machine as a host."""
        return Host(self._channel, name, role, self.folder / name, {},
                    ['nsenter', f'--net=/run/netns/{namespace}', '--'])

    def run(self, arguments: Sequence[str], *, check: bool = True,
            timeout: float = 60, stdin: str | None = None,
            ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, as root in the host's network.

        :raises BenchError: it failed and `check` is set, with its output; or
            it exceeded the timeout and was killed.
        """
        words = [str(word) for word in arguments]
        answer = self._channel.ask(
            'run', timeout + ANSWER_S, arguments=[*self._prefix, *words],
            stdin=stdin, timeout_s=timeout)
        if answer['status'] is None:
            raise errors.BenchError(
                f'{self.name}: {shlex.join(words)} did not end within '
                f'{timeout:g} s{_printed(answer["stderr"])}')
        done = subprocess.CompletedProcess(
            words, answer['status'], answer['stdout'], answer['stderr'])
        if check and done.returncode:
            raise errors.BenchError(
                f'{self.name}: {shlex.join(words)} failed ({done.returncode})'
                f'{_printed(done.stderr or done.stdout)}')
        return done

    def start(self, arguments: Sequence[str], *, log: str) -> Process:
        """Start a program, which ends with the bed at the latest.

        :param log: file name for its standard error, below `folder`.
        """
        words = [str(word) for word in arguments]
        number = self._channel.ask(
            'start', arguments=[*self._prefix, *words],
            log=str(self.folder / log))['process']
        return Process(self._channel, number,
                       f'{self.name}: {shlex.join(words)}')

    def put(self, source: pathlib.Path, name: str) -> pathlib.PurePosixPath:
        """Copy a file below `folder`; return its path on the host."""
        mode = source.stat().st_mode & 0o777
        with open(source, 'rb') as file:
            chunk, more = file.read(CHUNK), False
            while chunk or not more:
                answer = self._channel.ask(
                    'put', name=str(self.folder / name), mode=mode,
                    data=base64.b64encode(chunk).decode(), append=more)
                chunk, more = file.read(CHUNK), True
        self._channel.ask('finish', path=answer['path'], new=answer['new'])
        return pathlib.PurePosixPath(answer['path'])

    def read(self, path: pathlib.PurePosixPath) -> bytes:
        """Return the contents of a file of the host."""
        content = b''
        while True:
            chunk = base64.b64decode(self._channel.ask(
                'read', path=str(path), offset=len(content),
                size=CHUNK)['data'])
            content += chunk
            if len(chunk) < CHUNK:
                return content

    def undo(self, arguments: Sequence[str]) -> None:
        """Register a command to run when the agent ends, in reverse order."""
        self._channel.ask('undo', arguments=[
            *self._prefix, *(str(word) for word in arguments)])


def _printed(text: str) -> str:
    text = text.strip()[-_SHOWN_CHARACTERS:]
    return f':\n{text}' if text else ''
