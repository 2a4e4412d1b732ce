# SPDX-License-Identifier: Apache-2.0
"""The thread of an agent that applies the wanted state.

A *pass* compares the wanted state with the actual one, and repairs the
difference. The worker never waits for the controller, so one that does not
answer cannot delay the withdrawal of a VIP.
"""

from collections.abc import Callable
from collections.abc import Mapping
import threading
from types import MappingProxyType
from typing import Any
from typing import NamedTuple
from typing import Protocol

from oslo_log import log as logging

from octavia_xdp_provider.process.agents import metrics as agent_metrics
from octavia_xdp_provider.process.agents import wanted as wanted_state

LOG = logging.getLogger(__name__)


class PassResult(NamedTuple):
    """The result of a pass, which applied ``wanted``.

    ``failed``: id → why it is not as wanted. ``changed``: how many objects
    have changed plans since the pass before.
    """

    wanted: wanted_state.Wanted
    failed: Mapping[str, str] = MappingProxyType({})
    changed: int = 0


class Reconciler(Protocol):
    """Runs the passes.

    ``held``: the reported state, id → messages.Held or host_messages.Held.
    Replaced, never modified, when something in it changes.
    """

    @property
    def held(self) -> dict[str, Any]: ...


class Counters(Protocol):
    """A reading of the machine's datapath."""

    def counters(self) -> Any:
        """Return counters by the ids that reports have."""


class Worker:
    """Repeats ``turn``; keeps the wanted state and the last pass' result.
    For any thread, except ``run``.

    :param notify: called when there is something to report.
    :param come_round: see Loops.watch.
    :ivar result: of the last pass; None before the first one.
    :ivar problems: why the wanted state is not reached.
    """

    # Seconds between two turns without a notification.
    tick_s = 1.0
    facts: Counters
    _metrics: agent_metrics.Metrics
    _reconciler: Reconciler

    def __init__(self, reconciler: Reconciler,
                 metrics: agent_metrics.Metrics, notify: Callable[[], None],
                 come_round: Callable[[], None] = lambda: None) -> None:
        self._reconciler = reconciler
        self._metrics = metrics
        self._notify = notify
        self._come_round = come_round
        self._stop = threading.Event()
        self._work = threading.Event()
        self._done = threading.Condition()
        self._wanted: wanted_state.Wanted | None = None
        self.result: PassResult | None = None
        self.problems: list[str] = []

    @property
    def held(self) -> dict[str, Any]:
        """See Reconciler."""
        return self._reconciler.held

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

    def has_applied(self, wanted: wanted_state.Wanted | None) -> bool:
        result = self.result
        return (result is not None and wanted is not None
                and result.wanted.documents is wanted.documents)

    def wait_for(self, wanted: wanted_state.Wanted, timeout: float) -> bool:
        """Wait until this state is applied. Returns whether it is."""
        with self._done:
            self._done.wait_for(
                lambda: self._stop.is_set() or self.has_applied(wanted),
                timeout=timeout)
        return self.has_applied(wanted)

    def run(self) -> None:
        """Repeat turns until ``stop`` is called or one ends the agent."""
        while not self._stop.is_set():
            asked = self._work.is_set()
            self._work.clear()
            self._come_round()
            pause_s = self.tick_s
            try:
                pause_s = self.turn(asked)
            except Exception as error:
                if self.is_end(error):
                    return
                self._metrics.pass_failed()
                LOG.exception('A pass failed and is tried again.')
            self._work.wait(pause_s)

    def turn(self, asked: bool) -> float:
        """Run a pass if one is due; return the seconds until the next turn.

        :param asked: whether a pass was requested.
        """
        raise NotImplementedError

    def is_end(self, error: Exception) -> bool:
        """Return whether this error of a turn ends the agent."""
        return False

    def _has_passed(self, result: PassResult) -> None:
        with self._done:
            self.result = result
            self._done.notify_all()

    def _log_problems(self, problems: list[str]) -> None:
        """Log what differs from ``problems``, before they are replaced."""
        for problem in problems:
            if problem not in self.problems:
                LOG.error('%s', problem)
        for problem in self.problems:
            if problem not in problems:
                LOG.info('Solved: %s', problem)
