# SPDX-License-Identifier: Apache-2.0
"""The result handler: applies the health checker's queue to the tables.

Whenever it is woken, it reads all pending deltas in the directory and applies
only the checks in them, so that the cost depends on the changes and not on
the number of checks. All known results are compared with the tables after
loading a snapshot, after a failure, and when services have changed. The agent
notifies the handler of changed services, so that new members of a known check
get its result at once.

A *restored* result (not verified by a probe since the health checker was
started) comes from the health checker's saved state, which may be a little
older than the table's. It is only used for members whose state is unknown.
"""

import errno
import gc
import select
import threading
import time

from inotify_simple import flags
from inotify_simple import INotify
from oslo_log import log as logging

from octavia_xdp_provider.health import queue_directory
from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.health import results
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import heartbeat
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.node import wakeup
from octavia_xdp_provider.process import monitoring
from octavia_xdp_provider.result_handler import metrics

LOG = logging.getLogger(__name__)

# Interval of looks at everything, the longest delay after a lost event or
# notification. The datapath expects slots to be aged each second, too.
RESCAN_S = 1.0
# Events that require a look at everything; the others name files.
_LOST = flags.Q_OVERFLOW | flags.IGNORED | flags.UNMOUNT


class ResultHandler:
    """Waits for results, applies them and notifies the agent."""

    def __init__(self, conf):
        self._files = run_directory.RunDirectory(conf)
        self._files.make()
        self._queue = queue_directory.QueueDirectory(
            self._files.queue, self._files.rejected)
        self.metrics = metrics.Metrics()
        self._monitoring = monitoring.Monitoring(
            conf, 'agent', 'result_handler_metrics', self.metrics.registry)
        self._come_round = self._monitoring.loops.watch('results')
        self._heartbeat = heartbeat.Heartbeat(self._files.handler_heartbeat)
        self._results = results.Results(self._queue, self.metrics)
        self._stop = threading.Event()
        self._datapath = None
        self._generations = None
        self._whole = True  # whether the tables may lack known results

    def stop(self):
        """Make ``run`` return."""
        self._stop.set()
        wakeup.notify(self._files.handler_wakeup)

    def run(self):
        """Serve until ``stop`` is called, or another library takes over.

        :returns: the exit status, which is not 0 in the second case.
        :raises ConfigurationError: it cannot listen as configured.
        """
        self._monitoring.start()
        try:
            return self._serve()
        finally:
            self._monitoring.stop()

    def _serve(self):
        # Exempt imported objects, which live for ever, from collections.
        gc.freeze()
        with INotify() as inotify, wakeup.bind(
                self._files.handler_wakeup) as notifications:
            awake = select.poll()
            awake.register(inotify, select.POLLIN)
            awake.register(notifications, select.POLLIN)
            rescan = True
            due = 0.0
            self._monitoring.ready()
            while not self._stop.is_set():
                self._come_round()
                try:
                    if rescan:
                        due = time.monotonic() + RESCAN_S
                        # Repeat this, as the directory may be a new one.
                        self._files.make()
                        inotify.add_watch(self._files.queue, flags.MOVED_TO)
                    self.step(rescan)
                    if rescan:
                        self._heartbeat.beat()
                except Exception as error:
                    if datapath.is_foreign(error):
                        LOG.warning('%s. The handler exits to be started '
                                    'again.', error.text)
                        return 1
                    LOG.exception('The results could not be applied and are '
                                  'tried again.')
                    self.metrics.failed()
                    self._close()
                    self._stop.wait(1.0)
                    due = 0.0
                awake.poll(1000 * max(0.0, due - time.monotonic()))
                rescan = self._has_lost_events(inotify)
                rescan |= wakeup.drain(notifications)
                rescan |= time.monotonic() >= due
        return 0

    def _has_lost_events(self, inotify):
        """Consume all events; return whether some may have been lost."""
        lost = False
        for event in inotify.read(timeout=0):
            lost |= bool(event.mask & _LOST)
        if lost:
            self.metrics.lost()
        return lost

    def _close(self):
        if self._datapath is not None:
            self._datapath.close()
        self._datapath = None
        self._whole = True

    def step(self, rescan=True):
        """Apply new results, and remove their deltas.

        :param rescan: whether to look at services and snapshot as well.
        """
        changes = self._results.update(rescan)
        # This stays set after a failure, so that no result is lost.
        whole, self._whole = self._whole or changes.whole, True
        if self._open():
            whole |= rescan and self._services_changed()
            self._apply(changes, whole)
            self._whole = False
        for path in changes.paths:
            self._queue.remove(path)
        if rescan and self._datapath is not None:
            # Only this process ages slots. A delay is harmless: slots stay
            # open, and flows remembered, for longer.
            self.metrics.datapath(self._datapath.tick(),
                                  self._datapath.outcomes())

    def _apply(self, changes, whole):
        wanted = self._select(self._results.last if whole else changes.changed)
        if not wanted:
            return
        switched = self._datapath.apply_health(wanted)
        self.metrics.applied(len(changes.changed), switched, whole)
        if switched:
            self.metrics.took(changes.times, time.time_ns())
            LOG.info('Health results switched %s tables.', switched)
            wakeup.notify(self._files.agent_wakeup)

    def _open(self):
        """Open the datapath; return False until the agent has created it."""
        if self._datapath is None:
            try:
                self._datapath = self._files.open_datapath()
            except datapath.DatapathError as error:
                if error.errno != errno.ENOENT:
                    raise
                LOG.debug('No datapath yet: %s', error)
                return False
            self._generations = None
        return True

    def _services_changed(self):
        generations = self._datapath.generations()
        changed = generations != self._generations
        self._generations = generations
        return changed

    def _select(self, verdicts):
        """Return (check, up) for every verdict that may be applied."""
        # There are few distinct verdicts, even with many checks.
        up, restored = {}, set()
        for verdict in set(verdicts.values()):
            state = queue_file.state_of(verdict)
            if state != queue_file.State.UNKNOWN:
                up[verdict] = state == queue_file.State.UP
                if not queue_file.is_verified(verdict):
                    restored.add(verdict)
        known = self._datapath.known_checks() if restored else ()
        return [(key, up[verdict]) for key, verdict in verdicts.items()
                if verdict in up
                and not (verdict in restored and key in known)]
