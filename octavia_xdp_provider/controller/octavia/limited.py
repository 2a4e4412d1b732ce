# SPDX-License-Identifier: Apache-2.0
"""Calls with a time limit for the caller, whatever the server does.

HTTP libraries limit each wait for a packet, not the whole request: a server
that sends a byte every few seconds would occupy its caller for ever. After the
limit such a call continues in its thread until it ends by itself, and until
then counts as one of the concurrent calls.
"""

from collections.abc import Callable
from concurrent import futures
import threading
import time
from typing import Any
from typing import TypeVar
import weakref

from octavia_xdp_provider.controller.octavia import errors

_T = TypeVar('_T')


_instances: 'weakref.WeakSet[Limited]' = weakref.WeakSet()


def calls() -> dict[str, dict[str, int]]:
    """Return the number of calls by service and state: ``running``, also
    abandoned ones, and ``waiting`` until others end."""
    found: dict[str, dict[str, int]] = {}
    for limited in list(_instances):
        states = found.setdefault(limited.what, {'running': 0, 'waiting': 0})
        states['running'] += limited.running
        states['waiting'] += limited.waiting
    return found


class Limited:
    """Runs at most ``number`` calls at a time, for ``timeout_s`` each.

    :ivar what: the called service.
    :ivar running: calls that have not ended.
    :ivar waiting: calls that wait until one of these ends.
    """

    def __init__(self, what: str, number: int, timeout_s: float,
                 error: Callable[..., Exception] = errors.OctaviaUnavailable
                 ) -> None:
        """Set the limits.

        :param what: the called service, for texts.
        :param error: exception to raise, with a text and ``maybe_done``.
        """
        self.what = what
        self.running = self.waiting = 0
        self._timeout_s = timeout_s
        self._error = error
        self._free = threading.BoundedSemaphore(number)
        self._lock = threading.Lock()
        _instances.add(self)

    def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Return ``function(*arguments)``, called in a thread of its own.

        :raises OctaviaUnavailable: or ``error``: the call did not end in
            time, or too many others are still running.
        """
        deadline = time.monotonic() + self._timeout_s
        self._count(waiting=1)
        is_free = self._free.acquire(timeout=self._timeout_s)
        self._count(waiting=-1, running=is_free)
        if not is_free:
            raise self._error(
                f'{self.what}: too many calls are not answered')
        future: futures.Future[_T] = futures.Future()
        # A daemon thread, so that a hanging call does not stop the process
        # from ending.
        threading.Thread(target=self._run, args=(future, function, arguments),
                         daemon=True, name=self.what).start()
        try:
            return future.result(max(0.0, deadline - time.monotonic()))
        except futures.TimeoutError:
            if future.done():
                raise
            raise self._error(
                f'{self.what}: no answer within {self._timeout_s:g} s',
                maybe_done=True) from None

    def _run(self, future: 'futures.Future[_T]', function: Callable[..., _T],
             arguments: Any) -> None:
        try:
            result = function(*arguments)
        except BaseException as error:
            self._release()
            future.set_exception(error)
        else:
            self._release()
            future.set_result(result)

    def _release(self) -> None:
        self._count(running=-1)
        self._free.release()

    def _count(self, running: int = 0, waiting: int = 0) -> None:
        with self._lock:
            self.running += running
            self.waiting += waiting
