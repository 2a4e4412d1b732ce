# SPDX-License-Identifier: Apache-2.0
"""Runs a function in a separate thread while traffic flows."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import threading


class _During(threading.Thread):
    """A thread that records an exception of its function."""

    def __init__(self, call: Callable[[], None]):
        super().__init__(name='during-traffic')
        self._call = call
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # raised by run()
            self.error = error


@contextlib.contextmanager
def run(call: Callable[[], None] | None) -> Iterator[None]:
    """Run a function during the context, which waits for it at the end and
    raises its exception."""
    if call is None:
        yield
        return
    thread = _During(call)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if thread.error is not None:
        raise thread.error
