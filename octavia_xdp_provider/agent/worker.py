# SPDX-License-Identifier: Apache-2.0
"""The thread that applies the wanted state and maintains announcements."""

from collections.abc import Callable
import time

from oslo_log import log as logging

from octavia_xdp_provider.agent import facts as agent_facts
from octavia_xdp_provider.agent import metrics as agent_metrics
from octavia_xdp_provider.agent import parts as agent_parts
from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.contracts import history
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process.agents import wanted as wanted_state
from octavia_xdp_provider.process.agents import worker

LOG = logging.getLogger(__name__)

# Interval of looks at tables and announcements without a notification.
TICK_S = 1.0
# Interval of whole passes without a change from the controller. They repair
# changes of others on the node.
FULL_PASS_S = 10.0


class Worker(worker.Worker):
    """Runs passes.

    :param ended: called when another library has taken over.
    :param beat: called after each successful turn, see node/heartbeat.py.
    :ivar is_stale: whether another library has taken over.
    """

    tick_s = TICK_S
    facts: agent_facts.Facts
    _metrics: agent_metrics.Metrics
    _reconciler: reconcile.Reconciler

    def __init__(self, reconciler: reconcile.Reconciler,
                 parts: agent_parts.Parts, metrics: agent_metrics.Metrics,
                 notify: Callable[[], None], ended: Callable[[], None],
                 come_round: Callable[[], None] = lambda: None,
                 beat: Callable[[], None] = lambda: None) -> None:
        super().__init__(reconciler, metrics, notify, come_round)
        self.facts = reconciler.facts
        self._parts = parts
        self._ended = ended
        self._beat = beat
        # As of the link's last notification.
        self._notified: dict[str, messages.Held] | None = None
        self._turns = 0  # since the last whole pass
        self.is_stale = False

    def given_history(self, answer: dict[str, history.Aged]
                      ) -> None:
        """See history.History.given; the answer is applied at once."""
        self._reconciler.history.given(answer)
        self.wake()

    def turn(self, asked: bool) -> float:
        self._turns += 1
        self._parts.datapath.info()
        wanted, ready = self._wanted, self._parts.uplinks.ready
        self._parts.probes.attach()
        if wanted is None:
            self._reconciler.announce(frozenset())
        elif (not self.has_applied(wanted)
              or self._turns >= FULL_PASS_S / TICK_S
              or self._reconciler.leaving_s() == 0.0):
            self._pass(wanted, ready)
        else:
            self._reconciler.announce(ready)
        self._notify_link()
        self._beat()
        due_s = self._reconciler.leaving_s()
        return TICK_S if due_s is None else min(TICK_S, due_s)

    def is_end(self, error: Exception) -> bool:
        self.is_stale = datapath.is_stale(error)
        if self.is_stale:
            LOG.warning('%s. The agent exits to be started again.',
                        getattr(error, 'text', error))
            self._ended()
        return self.is_stale

    def _pass(self, wanted: wanted_state.Wanted, ready: frozenset[int]
              ) -> None:
        began, began_cpu = time.monotonic(), time.thread_time()
        result = self._reconciler.reconcile(wanted, ready)
        LOG.debug('A pass over %s load balancers with %s changed took %.1f '
                  'ms of CPU.', len(wanted.documents), result.changed,
                  (time.thread_time() - began_cpu) * 1000)
        self._metrics.passed(time.monotonic() - began)
        self._turns = 0
        self._has_passed(result)

    def _notify_link(self) -> None:
        """Make the link report changes at once."""
        held, problems = self.held, self._reconciler.problems
        if held is not self._notified:
            self._metrics.held(self._notified, held)
        if held is not self._notified or problems != self.problems:
            self._notified, self.problems = held, problems
            self._notify()
