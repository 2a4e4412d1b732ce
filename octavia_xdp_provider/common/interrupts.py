# SPDX-License-Identifier: Apache-2.0
"""Ends of commands that run until their user has seen enough."""

import contextlib
import signal
import typing

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class End:
    """What a command waits for between two of its readings.

    Not a threading.Event that a handler sets: where the signal comes while
    the event's own lock is held, that waits for itself.
    """

    def __init__(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _NUMBERS)

    def wait(self, timeout_s: float) -> bool:
        """Whether the user has asked for an end; at once then."""
        return signal.sigtimedwait(_NUMBERS, timeout_s) is not None


@contextlib.contextmanager
def asked_to_end() -> typing.Iterator[typing.Callable[[], bool]]:
    """A function that says whether the user has asked for an end."""
    asked: list[bool] = []
    before = {number: signal.signal(
        number, lambda *_unused: asked.append(True))
        for number in _NUMBERS}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
