# SPDX-License-Identifier: Apache-2.0
"""What the workers of both agents share: others wait for their passes.

A *pass* compares what is wanted with what there is, and repairs the
difference.
"""

import threading
import typing

from octavia_xdp_provider.common import wanted as wanted_state


class Result(typing.Protocol):
    """Of a pass."""

    @property
    def wanted(self) -> wanted_state.Wanted:
        """What it made true."""


ResultT = typing.TypeVar('ResultT', bound=Result)


class Passes(typing.Generic[ResultT]):
    """What is wanted, and the last pass. Any thread may use it.

    :ivar result: of the last pass; None before the first.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._work = threading.Event()
        self._done = threading.Condition()
        self._wanted: wanted_state.Wanted | None = None
        self.result: ResultT | None = None

    def want(self, wanted: wanted_state.Wanted) -> None:
        """Make this true, soon."""
        self._wanted = wanted
        self._work.set()

    def wake(self) -> None:
        """Make a pass now."""
        self._work.set()

    def stop(self) -> None:
        self._stop.set()
        self._work.set()
        with self._done:
            self._done.notify_all()

    def has_made_true(self, wanted: wanted_state.Wanted | None) -> bool:
        result = self.result
        return (result is not None and wanted is not None
                and result.wanted.documents is wanted.documents)

    def wait_for(self, wanted: wanted_state.Wanted, timeout: float) -> bool:
        """Until this is made true; whether it is."""
        with self._done:
            self._done.wait_for(
                lambda: self._stop.is_set() or self.has_made_true(wanted),
                timeout=timeout)
        return self.has_made_true(wanted)

    def _has_passed(self, result: ResultT) -> None:
        with self._done:
            self.result = result
            self._done.notify_all()
