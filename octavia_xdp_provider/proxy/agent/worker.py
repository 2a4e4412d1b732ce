# SPDX-License-Identifier: Apache-2.0
"""The thread that has the launcher run what is wanted."""

from collections.abc import Callable
import time

from octavia_xdp_provider.process.agents import metrics as agent_metrics
from octavia_xdp_provider.process.agents import worker
from octavia_xdp_provider.proxy.agent import parts as agent_parts
from octavia_xdp_provider.proxy.agent import plans
from octavia_xdp_provider.proxy.agent import reconcile
from octavia_xdp_provider.proxy.agent import states as agent_states

# Seconds between two passes without an event; they repair foreign changes.
PASS_S = 10.0


class Worker(worker.Worker):
    """Runs passes.

    :param take: returns the load balancers whose states may have changed,
        see Watch.take.
    :param find_node: returns what plans depend on besides documents.
    :param launcher_problem: returns that no launcher runs, or None.
    """

    facts: agent_parts.Traffic
    _reconciler: reconcile.Reconciler

    def __init__(self, reconciler: reconcile.Reconciler,
                 running: agent_states.States, take: Callable[
                     [], set[str] | None],
                 find_node: Callable[[], plans.Node],
                 launcher_problem: Callable[[], str | None],
                 traffic: agent_parts.Traffic,
                 metrics: agent_metrics.Metrics,
                 notify: Callable[[], None],
                 come_round: Callable[[], None] = lambda: None) -> None:
        super().__init__(reconciler, metrics, notify, come_round)
        self.facts = traffic
        self._states = running
        self._take = take
        self._find_node = find_node
        self._launcher_problem = launcher_problem
        self._pass_at = 0.0
        self.launcher_problem: str | None = None

    @property
    def reconciler(self) -> reconcile.Reconciler:
        return self._reconciler

    def turn(self, asked: bool) -> float:
        held, problems = self.held, self.problems
        ids = self._take()
        is_due = time.monotonic() >= self._pass_at
        changed = (self._states.look() if ids is None or is_due
                   else self._states.read(ids))
        self._reconciler.look_for_secrets()
        if self._wanted is not None and (
                is_due or self._reconciler.is_waiting
                or not self.has_applied(self._wanted)):
            self._pass()
        self._reconciler.look(changed)
        if self.held is not held or self.problems != problems:
            self._notify()
        return self.tick_s

    def _pass(self) -> None:
        began, wanted = time.monotonic(), self._wanted
        assert wanted is not None
        self._pass_at = began + PASS_S
        self.launcher_problem = self._launcher_problem()
        problems = [problem for problem in (
            self._states.problem, self.launcher_problem) if problem]
        try:
            node = self._find_node()
        except (OSError, ValueError) as error:
            problems.append(f'[proxy] haproxy: {error}')
        else:
            self._reconciler.reconcile(wanted, node)
            self._has_passed(worker.PassResult(
                wanted, self._reconciler.failed))
        problems += self._reconciler.problems
        self._log_problems(problems)
        self.problems = problems
        self._metrics.passed(time.monotonic() - began)
