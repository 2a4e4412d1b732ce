# SPDX-License-Identifier: Apache-2.0
"""What a scenario does while traffic flows, in a thread of its own."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import threading


class _During(threading.Thread):
    """What a scenario does while traffic flows."""

    def __init__(self, call: Callable[[], None]):
        super().__init__(name='during-traffic')
        self._call = call
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # raised by whoever joins
            self.error = error


@contextlib.contextmanager
def run(call: Callable[[], None] | None) -> Iterator[None]:
    """Call it until the context ends, which waits for it, and raises what it
    raised."""
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
