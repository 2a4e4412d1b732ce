# SPDX-License-Identifier: Apache-2.0
"""What the workers of both agents share: waiting for their passes.

A *pass* compares the wanted state with the actual one, and repairs the
difference.
"""

import threading
import typing

from octavia_xdp_provider.process import wanted as wanted_state


class Result(typing.Protocol):
    """The result of a pass."""

    @property
    def wanted(self) -> wanted_state.Wanted:
        """The state that the pass applied."""


ResultT = typing.TypeVar('ResultT', bound=Result)


class Passes(typing.Generic[ResultT]):
    """The wanted state, and the result of the last pass. Thread-safe.

    :ivar result: of the last pass; None before the first one.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._work = threading.Event()
        self._done = threading.Condition()
        self._wanted: wanted_state.Wanted | None = None
        self.result: ResultT | None = None

    def want(self, wanted: wanted_state.Wanted) -> None:
        """Request a pass that applies this state."""
        self._wanted = wanted
        self._work.set()

    def wake(self) -> None:
        """Request a pass now."""
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
        """Wait until this state is applied. Returns whether it is."""
        with self._done:
            self._done.wait_for(
                lambda: self._stop.is_set() or self.has_made_true(wanted),
                timeout=timeout)
        return self.has_made_true(wanted)

    def _has_passed(self, result: ResultT) -> None:
        with self._done:
            self.result = result
            self._done.notify_all()
