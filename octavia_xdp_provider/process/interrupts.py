# SPDX-License-Identifier: Apache-2.0
"""How commands that run until they are interrupted notice SIGINT, SIGTERM."""

import contextlib
import signal
import typing

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class End:
    """Waits for SIGINT or SIGTERM between two readings of a command.

    A threading.Event that a signal handler sets would deadlock if the signal
    arrives while the event's own lock is held.
    """

    def __init__(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _NUMBERS)

    def wait(self, timeout_s: float) -> bool:
        """Return whether a signal has arrived, as soon as one does."""
        return signal.sigtimedwait(_NUMBERS, timeout_s) is not None


@contextlib.contextmanager
def asked_to_end() -> typing.Iterator[typing.Callable[[], bool]]:
    """Yield a function that returns whether a signal has arrived."""
    asked: list[bool] = []
    before = {number: signal.signal(
        number, lambda *_unused: asked.append(True))
        for number in _NUMBERS}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
