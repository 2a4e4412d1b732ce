# SPDX-License-Identifier: Apache-2.0
"""Ends of commands that run until their user has seen enough."""

import contextlib
import signal
import typing


@contextlib.contextmanager
def asked_to_end() -> typing.Iterator[typing.Callable[[], bool]]:
    """A function that says whether the user has asked for an end."""
    asked: list[bool] = []
    before = {number: signal.signal(
        number, lambda *_unused: asked.append(True))
        for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
