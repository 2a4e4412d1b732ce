# SPDX-License-Identifier: Apache-2.0
"""Collects what an agent reports, and reports it."""

from collections.abc import Callable
import dataclasses
import time
from typing import Any
from typing import Protocol

from oslo_log import log as logging

from octavia_xdp_provider.process.agents import fetching
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.process.agents import run_directory
from octavia_xdp_provider.process.agents import wanted as wanted_state
from octavia_xdp_provider.process.agents import worker as agent_worker

LOG = logging.getLogger(__name__)

# Longest time between two reports: a controller whose database was restored
# has lost earlier ones.
SILENCE_S = 30.0
# Between two reports of counters and of figures that change all the time.
FIGURES_S = 10.0


class State(Protocol):
    """The agent's state of its own machine."""

    def read(self, problems: list[str]) -> Any:
        """Return messages.NodeState or host_messages.HostState.

        :param problems: what keeps the machine from its wanted state.
        """


@dataclasses.dataclass(frozen=True)
class Ends:
    """The parts that a link connects.

    ``host``: the agent's name. ``controller``: rpc.NodesClient, or an object
    with the same calls. ``worker``: applies the wanted state and provides the
    actual one.
    """

    host: str
    controller: Any
    fetcher: fetching.Fetcher
    reporter: reports.Reporter
    worker: agent_worker.Worker
    state: State
    files: run_directory.RunDirectory


class Reporting:
    """Reports what the worker has; for the link's thread.

    :param distrust: returns what an agent with problems reports in place of
        the actual state.
    :ivar reported_at: time.monotonic() of the last accepted report.
    """

    def __init__(self, ends: Ends,
                 distrust: Callable[[dict[str, Any], list[str]],
                                    dict[str, Any]]) -> None:
        self._ends = ends
        self._distrust = distrust
        self._directory = _Directory(ends.files)
        self._facts = reports.Facts()
        self._problems: list[str] = []
        self._figures_at = 0.0
        self._due_at = 0.0
        self.reported_at = float('-inf')

    @property
    def is_due(self) -> bool:
        """Whether to report even if nothing has changed."""
        return time.monotonic() >= self._due_at

    def report(self, has_other: Callable[[], bool], anyway: bool) -> None:
        """Report what has changed.

        :param has_other: see Reporter.send.
        :param anyway: report even if nothing has changed.
        """
        result = self._ends.worker.result
        if result is None:
            return
        self._collect(result.wanted)
        if anyway or self._ends.reporter.has_news(self._facts):
            began = time.monotonic()
            self._ends.reporter.send(self._ends.controller, self._ends.host,
                                     self._facts, has_other)
            # Not the time of the answer, which may come late.
            self.reported_at = began
        if anyway:
            self._due_at = time.monotonic() + SILENCE_S

    def _collect(self, applied: wanted_state.Wanted) -> None:
        """Update the facts that reports are made from."""
        worker, fetcher, facts = (
            self._ends.worker, self._ends.fetcher, self._facts)
        # A state that was applied for an earlier fetch also satisfies a later
        # one with the same documents.
        if fetcher.wanted and worker.has_applied(fetcher.wanted):
            applied = fetcher.wanted
        facts.as_of = applied.as_of
        problems = list(worker.problems) + self._directory.problems()
        facts.awaited_as_of = fetcher.removed_as_of
        facts.held = self._distrust(worker.held, problems)
        now = time.monotonic()
        if now >= self._figures_at or problems != self._problems:
            self._figures_at = now + FIGURES_S
            facts.counters = worker.facts.counters()
            facts.state = self._ends.state.read(problems)
        self._problems = problems


class _Directory:
    """Whether the run directory can be written; a change is logged."""

    def __init__(self, files: run_directory.RunDirectory) -> None:
        self._files = files
        self._error: str | None = None

    def problems(self) -> list[str]:
        error = None
        try:
            self._files.check_writable()
        except OSError as caught:
            error = (f'{self._files.directory} cannot be written: '
                     f'{caught.strerror or caught}')
        if error != self._error:
            if error:
                LOG.error('%s. This agent reports that it cannot apply the '
                          'wanted state.', error)
            else:
                LOG.info('%s can be written again.', self._files.directory)
        self._error = error
        return [error] if error else []
