# SPDX-License-Identifier: Apache-2.0
"""A parent process that restarts its child whenever it ends.

Two processes need one, because their parents do not restart them well enough:
ExaBGP ends if a child dies more than five times within a minute, or while it
is being answered, and octavia-driver-agent does not restart a provider agent
that was killed. They therefore start a supervisor, which does nothing that
can fail, keeps its inherited pipes open, and passes them on to a child that
does the work and may die at any time.

The child is forked without exec, so that it can start even if the disk cannot
be read; ``command`` is for work that is a program of its own.
"""

import collections.abc
import contextlib
import ctypes
import dataclasses
import logging
import multiprocessing
import os
import signal
import time
import traceback
import typing

LOG = logging.getLogger(__name__)

# Between two checks of the child and the stop event.
POLL_S = 0.2

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)

Work = collections.abc.Callable[[], object]


class StopEvent(typing.Protocol):
    """A ``threading.Event`` or ``multiprocessing.Event``."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> object: ...


@dataclasses.dataclass(frozen=True)
class Backoff:
    """Seconds between the end of a child and the start of the next one.

    They double from ``first_s`` up to ``max_s``, and start over after a child
    that lived longer than ``stable_after_s``, whose cause of death is not a
    permanent one.
    """

    first_s: float
    max_s: float
    stable_after_s: float = 10.0


def die_with_parent(number: int, parent: int) -> bool:
    """Make the kernel send this process a signal when its parent ends.

    :param number: the signal.
    :param parent: process id of the parent, determined before the fork.
    :returns: False if the parent has already ended: no signal will come.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, number)
    return os.getppid() == parent


def parent_process() -> int:
    """Return the process id of the parent.

    If ``multiprocessing`` started this process, it is the id recorded before
    the fork: ``os.getppid()`` returns another process if the parent is dead.
    """
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        return parent.pid
    return os.getppid()


def command(arguments: list[str]) -> Work:
    """Return work that executes a program, given by its path and arguments.

    The program inherits only standard input, output and error.
    """
    def work() -> None:
        for name in os.listdir('/proc/self/fd'):
            # The descriptor of the directory itself is already closed.
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), int(name) <= 2)
        os.execv(arguments[0], arguments)
    return work


@dataclasses.dataclass(frozen=True)
class Supervisor:
    """Runs ``work`` in child processes, one after the other.

    :param name: of the child, for the log.
    :param work: called in the child, which succeeds if it returns, and fails
        if it raises, exits with a failure or is killed.
    :param death_signal: sent to the child when the supervisor dies, so that
        it cannot run beside the next supervisor's child.
    :param restart_after_success: if false, ``run`` returns after a success.
    :param stop: an event that ends child and supervisor; a child that does
        not end within ``stop_timeout_s`` of SIGTERM is killed.
    """

    name: str
    work: Work
    backoff: Backoff
    death_signal: int = signal.SIGKILL
    restart_after_success: bool = False
    stop: StopEvent | None = None
    stop_timeout_s: float = 10.0

    def run(self) -> None:
        """Run until the event is set, or a child succeeds for good."""
        delay_s = self.backoff.first_s
        while not self._stopped():
            started = time.monotonic()
            status, ending = self._run_child()
            if self._stopped():
                return
            if status == 0 and not self.restart_after_success:
                return
            if time.monotonic() - started > self.backoff.stable_after_s:
                delay_s = self.backoff.first_s
            LOG.error('%s: %s; starting another in %.1f s.', self.name,
                      ending, delay_s)
            self._sleep(delay_s)
            delay_s = min(2 * delay_s, self.backoff.max_s)

    def _run_child(self) -> tuple[int | None, str]:
        """Run a child. Returns its exit status, and in words how it ended.

        The status is None if the child could not be started, and the negated
        number of the signal if it was killed.
        """
        supervisor = os.getpid()
        try:
            child = os.fork()
        except OSError as error:
            return None, f'cannot be started ({error})'
        if not child:
            os._exit(self._in_child(supervisor))
        LOG.info('Started %s as process %d.', self.name, child)
        status = self._await_end(child)
        return status, f'process {child} ended with status {status}'

    def _await_end(self, child: int) -> int | None:
        if self.stop is None:
            return _wait(child, 0)
        while (status := _wait(child, os.WNOHANG)) is None:
            self.stop.wait(POLL_S)
            if self.stop.is_set():
                return self._end(child)
        return status

    def _in_child(self, supervisor: int) -> int:
        try:
            if not die_with_parent(self.death_signal, supervisor):
                return 1
            self.work()
        except BaseException:
            traceback.print_exc()
            return 1
        return 0

    def _end(self, child: int) -> int | None:
        """Terminate a child, or kill it if it takes too long."""
        os.kill(child, signal.SIGTERM)
        until = time.monotonic() + self.stop_timeout_s
        while time.monotonic() < until:
            status = _wait(child, os.WNOHANG)
            if status is not None:
                return status
            time.sleep(POLL_S / 10)
        os.kill(child, signal.SIGKILL)
        return _wait(child, 0)

    def _stopped(self) -> bool:
        return self.stop is not None and self.stop.is_set()

    def _sleep(self, seconds: float) -> None:
        if self.stop is None:
            time.sleep(seconds)
        else:
            self.stop.wait(seconds)


def _wait(child: int, flags: int) -> int | None:
    """Return the exit status of a child; None if it runs (with WNOHANG)."""
    ended, status = os.waitpid(child, flags)
    return os.waitstatus_to_exitcode(status) if ended else None
