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

import dataclasses
import errno
import gc
import select
import threading
import time

from inotify_simple import flags
from inotify_simple import INotify
from oslo_log import log as logging

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import heartbeat
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.node import wakeup
from octavia_xdp_provider.process import monitoring
from octavia_xdp_provider.result_handler import metrics
from octavia_xdp_provider.result_handler import queue_directory
from octavia_xdp_provider.result_handler import queue_file

LOG = logging.getLogger(__name__)

# Interval of looks at everything, the longest delay after a lost event or
# notification. The datapath expects slots to be aged each second, too.
RESCAN_S = 1.0
# Interval of reading a new snapshot even if no delta is missing, because only
# snapshots show which checks are gone.
PRUNE_S = 10.0
# Events that require a look at everything; the others name files.
_LOST = flags.Q_OVERFLOW | flags.IGNORED | flags.UNMOUNT


@dataclasses.dataclass
class QueueChanges:
    """The result of one look at the queue."""

    paths: list = dataclasses.field(default_factory=list)
    changed: dict = dataclasses.field(default_factory=dict)
    times: list = dataclasses.field(default_factory=list)
    whole: bool = False  # whether to compare everything with the tables


class Results:
    """The last known result of each check, from snapshot and deltas."""

    def __init__(self, queue, metrics=None, clock=time.monotonic):
        self._queue = queue
        self._metrics = metrics or metrics.Metrics()
        self._clock = clock
        self._position = (0, 0)  # boot, last sequence applied
        self._missing = (0, 0)   # least position of a needed snapshot, or None
        self._stamp = None       # of the last snapshot that was read
        self._loaded = 0.0
        self.last = {}           # key → verdict

    def update(self, rescan=True):
        """Read new results.

        :param rescan: whether to look at the snapshot even if no delta is
            missing.
        :returns: QueueChanges. Its paths must be removed after it is applied.
        """
        changes = QueueChanges()
        paths, foreign = self._queue.scan()
        for path in foreign:
            self._reject(path, 'foreign', 'not a file of the queue')
        deltas = self._read(paths, changes)
        if self._missing is not None or rescan:
            self._look_at_snapshot(changes, rescan, bool(deltas))
        for delta in deltas:
            self._apply_delta(delta, changes)
        return changes

    def _read(self, paths, changes):
        """Decode deltas and note gaps before them."""
        deltas = []
        boot, sequence = self._position
        for path in paths:
            try:
                delta = self._queue.read(path)
            except FileNotFoundError:
                continue
            except queue_file.QueueFileError as error:
                self._reject(path, error.reason, str(error))
                self._require_snapshot(self._position)
                continue
            self._metrics.file('delta')
            changes.paths.append(path)
            if (delta.boot, delta.last_sequence) <= (boot, sequence):
                continue
            if delta.boot != boot or delta.first_sequence > sequence + 1:
                self._require_snapshot((delta.boot, delta.first_sequence - 1))
            boot, sequence = delta.boot, delta.last_sequence
            deltas.append(delta)
        return deltas

    def _require_snapshot(self, position):
        self._missing = max(self._missing or (0, 0), position)

    def _look_at_snapshot(self, changes, rescan, busy):
        try:
            mark = self._queue.snapshot_mark()
        except queue_file.QueueFileError as error:
            self._reject(self._queue.snapshot_path, error.reason, str(error))
            return
        if mark is None:
            return
        stamp, position, stretch_percent = mark
        self._metrics.stretched(stretch_percent)
        if stamp == self._stamp:
            return
        ahead = position > self._position and not busy
        due = rescan and self._clock() >= self._loaded + PRUNE_S
        if self._missing is not None or ahead or due:
            self._stamp = stamp
            self._load_snapshot(changes)

    def _load_snapshot(self, changes):
        try:
            snapshot = self._queue.snapshot()
        except queue_file.QueueFileError as error:
            self._reject(self._queue.snapshot_path, error.reason, str(error))
            return
        if snapshot is None:
            return
        self._metrics.file('snapshot')
        self._loaded = self._clock()
        position = (snapshot.boot, snapshot.last_sequence)
        if position < self._position:
            return
        if self._missing is not None and position >= self._missing:
            self._missing = None
        columns = snapshot.columns
        last = dict(zip(columns.keys, columns.verdicts, strict=True))
        changes.whole |= last != self.last
        self.last = last
        self._position = position

    def _apply_delta(self, delta, changes):
        boot, sequence = self._position
        if (delta.boot, delta.last_sequence) <= (boot, sequence):
            return
        skip = 0
        if delta.boot == boot:
            skip = max(0, sequence + 1 - delta.first_sequence)
        keys = delta.columns.keys[skip:]
        verdicts = delta.columns.verdicts[skip:]
        before = map(self.last.get, keys)
        changes.times.extend(
            moment for old, new, moment
            in zip(before, verdicts, delta.columns.times[skip:], strict=True)
            if old is None
            or queue_file.state_of(old) != queue_file.state_of(new))
        pairs = dict(zip(keys, verdicts, strict=True))
        self.last.update(pairs)
        changes.changed.update(pairs)
        self._position = (delta.boot, delta.last_sequence)

    def _reject(self, path, reason, text):
        self._metrics.rejected(reason)
        self._queue.reject(path, text)
        # The writer of the queue is not trusted and chose the name.
        LOG.error('Queue file %s set aside: %s', ascii(path.name), text)


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
        self._results = Results(self._queue, self.metrics)
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
