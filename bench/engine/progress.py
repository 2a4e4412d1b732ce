# SPDX-License-Identifier: Apache-2.0
"""Reports the progress of a run and its remaining time."""

from collections.abc import Callable
import time
from typing import TextIO


class Progress:
    """Prints lines with the remaining time.

    The remaining time is the planned one, scaled by how much longer than
    planned finished steps have taken.

    :param planned: seconds by step, in order.
    """

    def __init__(self, planned: dict[str, float], out: TextIO,
                 clock: Callable[[], float] = time.monotonic):
        self._planned = dict(planned)
        self._total = len(planned)
        self._out = out
        self._clock = clock
        self._begin = clock()
        self._done = 0.0  # planned seconds of finished steps
        self._took = 0.0

    def begin(self, step: str) -> None:
        number = self._total - len(self._planned) + 1
        self._line(f'[{number}/{self._total}] {step}, '
                   f'{_duration(self.remaining())} remaining')

    def end(self, step: str, took: float, result: str) -> None:
        self._done += self._planned.pop(step)
        self._took += took
        self._line(f'        {result} ({took:.1f} s)')

    def say(self, text: str) -> None:
        self._line(text)

    def remaining(self) -> float:
        """Return the remaining seconds."""
        factor = self._took / self._done if self._done else 1.0
        return factor * sum(self._planned.values())

    def _line(self, text):
        elapsed = self._clock() - self._begin
        print(f'{_duration(elapsed):>6} {text}', file=self._out, flush=True)


def _duration(seconds):
    minutes, rest = divmod(round(seconds), 60)
    return f'{minutes}:{rest:02}'
