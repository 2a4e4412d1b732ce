# SPDX-License-Identifier: Apache-2.0
"""Checks that a process makes of itself, for GET /healthcheck.

The answer has status 200 or 503, like that of oslo.middleware's healthcheck.
That one loads checks by name, so that they have no access to the threads of
this process, and it needs a web framework.
"""

from collections.abc import Callable
import threading
import time

from oslo_log import log as logging

from octavia_xdp_provider.process import loops as loops_module

LOG = logging.getLogger(__name__)

# Returns what is wrong, or None.
Check = Callable[[], str | None]


class Health:
    """The checks of one process. Thread-safe."""

    def __init__(self, loops: loops_module.Loops) -> None:
        self._checks: dict[str, Check] = {}
        self._loops = loops
        self.add('threads', self._threads)

    def add(self, name: str, check: Check) -> None:
        """:param check: must return immediately."""
        self._checks[name] = check

    def results(self) -> dict[str, str | None]:
        """Return what is wrong, or None, by name of the check."""
        problems: dict[str, str | None] = {}
        for name, check in self._checks.items():
            try:
                problems[name] = check()
            except Exception as error:
                LOG.exception('The check of %s failed.', name)
                problems[name] = f'{type(error).__name__}: {error}'
        return problems

    def _threads(self) -> str | None:
        hanging = self._loops.hanging()
        return f'hanging: {loops_module.words(hanging)}' if hanging else None


class Repeated:
    """A check that may take long, which a thread of its own repeats.

    :param attempt: raises if something is wrong; may hang.
    :param interval_s: seconds between two attempts.
    :param limit_s: seconds after the last success until there is a problem.
    """

    def __init__(self, name: str, attempt: Callable[[], object],
                 interval_s: float, limit_s: float,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._attempt = attempt
        self._interval_s = interval_s
        self._limit_s = limit_s
        self._clock = clock
        self._succeeded = clock()
        self._error = 'it has not answered yet'
        self._stopping = threading.Event()

    def start(self) -> None:
        # A daemon thread: if it hangs, it must not delay the process' end.
        threading.Thread(target=self._run, name=f'check of {self._name}',
                         daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        while True:
            self.look()
            if self._stopping.wait(self._interval_s):
                return

    def look(self) -> None:
        """Run the check once."""
        try:
            self._attempt()
        except Exception as error:
            self._error = f'{type(error).__name__}: {error}'
        else:
            self._succeeded = self._clock()
            self._error = 'it does not answer'

    def problem(self) -> str | None:
        """See Check."""
        silent_s = self._clock() - self._succeeded
        if silent_s <= self._limit_s:
            return None
        return f'for {silent_s:.0f} s: {self._error}'
