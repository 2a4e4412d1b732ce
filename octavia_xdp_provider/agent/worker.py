# SPDX-License-Identifier: Apache-2.0
"""The thread that applies the wanted state and maintains announcements.

It never waits for the controller, so one that does not answer cannot delay
the withdrawal of a VIP.
"""

import time

from oslo_log import log as logging

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process import passes

LOG = logging.getLogger(__name__)

# Interval of looks at tables and announcements without a notification.
TICK_S = 1.0
# Interval of whole passes without a change from the controller. They repair
# changes of others on the node.
FULL_PASS_S = 10.0


class Worker(passes.Passes):
    """Runs passes, whose results are reconcile.PassResult.

    :param uplinks: uplinks.monitor.UplinkMonitor.
    :param notify: called when there is something to report.
    :param ended: called when another library has taken over.
    :param metrics: metrics.Metrics.
    :param come_round: see Loops.watch.
    :param beat: called after each successful round, see node/heartbeat.py.
    """

    def __init__(self, reconciler, dataplane, uplinks, probes, notify, ended,
                 metrics, come_round=lambda: None, beat=lambda: None):
        super().__init__()
        self._metrics = metrics
        self._come_round = come_round
        self._beat = beat
        self._reconciler = reconciler
        self._datapath = dataplane
        self._uplinks = uplinks
        self._probes = probes
        self._notify = notify
        self._ended = ended
        self._held = None  # as of the link's last notification
        self.problems = []  # errors of files that are not as wanted
        self.is_stale = False  # whether another library has taken over

    @property
    def held(self):
        """The reported state: id → messages.Held."""
        return self._reconciler.held

    def counters(self):
        """See facts.Facts."""
        return self._reconciler.counters()

    def traffic(self):
        """See facts.Facts."""
        return self._reconciler.traffic()

    def total(self):
        """See facts.Facts."""
        return self._reconciler.total()

    def nat_state(self):
        """Return messages.NatState or None."""
        return self._reconciler.nat_state()

    def given_history(self, answer):
        """See history.History.given; the answer is applied at once."""
        self._reconciler.given_history(answer)
        self.wake()

    def open_slots(self):
        """See facts.Facts."""
        return self._reconciler.open_slots()

    def active_flows(self):
        """See facts.Facts."""
        return self._reconciler.active_flows()

    def run(self):
        """Run until ``stop`` is called or another library takes over."""
        done = None  # documents of the last whole pass
        ticks = 0
        while not self._stop.is_set():
            pause_s = TICK_S
            self._work.clear()
            self._come_round()
            ticks += 1
            try:
                self._datapath.info()
                wanted, ready = self._wanted, self._uplinks.ready
                self._probes.attach()
                if wanted is None:
                    self._reconciler.announce(frozenset())
                elif (wanted.documents is not done
                      or ticks >= FULL_PASS_S / TICK_S
                      or self._reconciler.leaving_s() == 0.0):
                    begun = time.monotonic()
                    result = self._reconcile(wanted, ready)
                    self._metrics.passed(time.monotonic() - begun)
                    done, ticks = wanted.documents, 0
                    self._has_passed(result)
                else:
                    self._reconciler.announce(ready)
                self._notify_link()
                self._beat()
                due_s = self._reconciler.leaving_s()
                if due_s is not None:
                    pause_s = min(TICK_S, due_s)
            except Exception as error:
                if datapath.is_stale(error):
                    LOG.warning('%s. The agent exits to be started again.',
                                error.text)
                    self.is_stale = True
                    self._ended()
                    return
                self._metrics.pass_failed()
                LOG.exception('A pass failed and is tried again.')
            self._work.wait(pause_s)

    def _reconcile(self, wanted, ready):
        began = time.thread_time()
        result = self._reconciler.reconcile(wanted, ready)
        LOG.debug('A pass over %s load balancers with %s changed took %.1f '
                  'ms of CPU.', len(wanted.documents), result.changed,
                  (time.thread_time() - began) * 1000)
        return result

    def _notify_link(self):
        """Make the link report changes at once."""
        held = self._reconciler.held
        problems = self._reconciler.problems
        if held is not self._held:
            self._metrics.held(self._held, held)
        if held is not self._held or problems != self.problems:
            self._held, self.problems = held, problems
            self._notify()
