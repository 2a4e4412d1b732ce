# SPDX-License-Identifier: Apache-2.0
"""The result handler: from the health checker's queue into the tables.

Level-triggered: whatever wakes it, it reads the snapshot where it must and
all pending deltas, and applies the last known result of every check. A
table that already says so does not switch.

A *restored* result (not verified by a probe since the health checker was
started) is the health checker's memory, which may be a little older than
what the table already knows; it is used only for members that the table
knows nothing about.
"""

import collections
import threading

from inotify_simple import flags
from inotify_simple import INotify
from oslo_log import log as logging

from octavia_xdp_provider.agent import bell
from octavia_xdp_provider.agent import datapath
from octavia_xdp_provider.agent import files as node_files
from octavia_xdp_provider.common import result_queue

LOG = logging.getLogger(__name__)

# Milliseconds between two looks at the queue when inotify says nothing: a
# lost event costs at most this, and new members of a check that is known
# already get its result.
RESCAN = 1000


class Results:
    """The last known result of each check, from snapshot and deltas."""

    def __init__(self, queue):
        self._queue = queue
        self._position = (0, 0)  # boot, last sequence applied
        self._snapshot_stamp = None
        self.last = {}           # key → Record
        self.rejected = collections.Counter()  # reason → files

    def update(self):
        """Take in what is new.

        :returns: paths of the deltas taken in, to remove once applied.
        """
        taken = []
        for path in self._queue.foreign():
            self._reject(path, 'foreign', 'not a file of the queue')
        need_snapshot = self._position == (0, 0)
        pending = []
        for path in self._queue.pending():
            try:
                pending.append((path, self._queue.read(path)))
            except FileNotFoundError:
                continue
            except result_queue.QueueFileError as error:
                self._reject(path, error.reason, str(error))
                need_snapshot = True
        for _, delta in pending:
            if not self._follows(delta):
                need_snapshot = True
        if need_snapshot:
            self._load_snapshot()
        for path, delta in pending:
            if (delta.boot, delta.last_sequence) > self._position:
                self._take(delta)
            taken.append(path)
        return taken

    def _follows(self, delta):
        boot, sequence = self._position
        if delta.boot == boot:
            return delta.first_sequence <= sequence + 1
        return delta.boot < boot

    def _take(self, delta):
        for record in delta.records:
            if (delta.boot, record.sequence) > self._position:
                self.last[record.key] = record
        self._position = (delta.boot, delta.last_sequence)

    def _load_snapshot(self):
        try:
            snapshot = self._queue.snapshot()
        except result_queue.QueueFileError as error:
            self._reject(self._queue.snapshot_path, error.reason, str(error))
            return
        if snapshot is None:
            return
        position = (snapshot.boot, snapshot.last_sequence)
        if position < self._position:
            return
        self.last = {record.key: record for record in snapshot.records}
        self._position = position

    def prune(self):
        """Forget checks that the health checker has dropped.

        Only a snapshot can tell; it is read again when it was replaced.
        """
        try:
            stat = self._queue.snapshot_path.stat()
        except FileNotFoundError:
            return
        stamp = (stat.st_ino, stat.st_mtime_ns)
        if stamp != self._snapshot_stamp:
            self._snapshot_stamp = stamp
            self._load_snapshot()

    def _reject(self, path, reason, text):
        self.rejected[reason] += 1
        self._queue.reject(path, text)
        LOG.error('Queue file %s set aside: %s', path.name, text)


class ResultHandler:
    """The process: waits, applies, rings the agent."""

    def __init__(self, conf):
        self._files = node_files.NodeFiles(conf)
        self._files.make()
        self._queue = result_queue.QueueDirectory(self._files.queue)
        self._results = Results(self._queue)
        self._stop = threading.Event()
        self._datapath = None

    def stop(self):
        """Ask ``run`` to return."""
        self._stop.set()

    def run(self):
        """Serve until ``stop`` is called."""
        with INotify() as inotify:
            inotify.add_watch(self._files.queue,
                              flags.MOVED_TO | flags.CLOSE_WRITE)
            while not self._stop.is_set():
                try:
                    self.step()
                except Exception:
                    LOG.exception('The results could not be applied and are '
                                  'tried again.')
                    self._close()
                    self._stop.wait(1.0)
                inotify.read(timeout=RESCAN)

    def _close(self):
        if self._datapath is not None:
            self._datapath.close()
        self._datapath = None

    def step(self):
        """Apply everything that is there; deltas go once they are in."""
        taken = self._results.update()
        if not taken:
            self._results.prune()
        if self._open():
            switched = self._datapath.apply_health(self._wanted())
            if switched:
                LOG.info('Health results switched %s tables.', switched)
                bell.ring(self._files.bell)
        for path in taken:
            self._queue.remove(path)

    def _open(self):
        """The agent creates the datapath; until then there is nothing."""
        if self._datapath is None:
            try:
                self._datapath = self._files.open_datapath()
            except datapath.DatapathError as error:
                LOG.debug('No datapath yet: %s', error)
                return False
        return True

    def _wanted(self):
        """(check, up) of every result that may be applied."""
        known = None
        wanted = []
        for record in self._results.last.values():
            if record.state == result_queue.State.UNKNOWN:
                continue
            if not record.verified:
                if known is None:
                    known = self._known_checks()
                if record.key in known:
                    continue
            wanted.append((record.key,
                           record.state == result_queue.State.UP))
        return wanted

    def _known_checks(self):
        return {member.check for service in self._datapath.services()
                for member in self._datapath.members(service.key)
                if member.known}
