# SPDX-License-Identifier: Apache-2.0
"""Calls that end for their caller in time, whatever the other side does.

HTTP libraries bound each wait for a packet, not the whole: a server that
sends a byte every few seconds would be listened to for ever. Such a call
goes on in its thread until it ends by itself, and counts for the limit.
"""

from collections.abc import Callable
from concurrent import futures
import threading
import time
from typing import Any
from typing import TypeVar

from octavia_xdp_provider.controller.octavia import errors

_T = TypeVar('_T')


class Limited:
    """At most ``number`` calls at a time, each for ``timeout_s`` at most."""

    def __init__(self, what: str, number: int, timeout_s: float,
                 error: Callable[..., Exception] = errors.OctaviaUnavailable
                 ) -> None:
        """:param error: what is raised, with a text and ``maybe_done``."""
        self._what = what
        self._timeout_s = timeout_s
        self._error = error
        self._free = threading.BoundedSemaphore(number)

    def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """``function(*arguments)`` in a thread of its own.

        :raises OctaviaUnavailable: or ``error``: it did not end in time, or
            too many others have not.
        """
        deadline = time.monotonic() + self._timeout_s
        if not self._free.acquire(timeout=self._timeout_s):
            raise self._error(
                f'{self._what}: too many calls are not answered')
        future: futures.Future[_T] = futures.Future()
        # A daemon: the process may end while a call has not.
        threading.Thread(target=self._run, args=(future, function, arguments),
                         daemon=True, name=self._what).start()
        try:
            return future.result(max(0.0, deadline - time.monotonic()))
        except futures.TimeoutError:
            if future.done():
                raise
            raise self._error(
                f'{self._what}: no answer within {self._timeout_s:g} s',
                maybe_done=True) from None

    def _run(self, future: 'futures.Future[_T]', function: Callable[..., _T],
             arguments: Any) -> None:
        try:
            result = function(*arguments)
        except BaseException as error:
            self._free.release()
            future.set_exception(error)
        else:
            self._free.release()
            future.set_result(result)
