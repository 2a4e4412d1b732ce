# SPDX-License-Identifier: Apache-2.0
"""The last known result of each check, as the result queue has it."""

from collections.abc import Callable
import dataclasses
import pathlib
import time
from typing import Protocol

from oslo_log import log as logging

from octavia_xdp_provider.health import queue_directory
from octavia_xdp_provider.health import queue_file

LOG = logging.getLogger(__name__)

# Interval of reading a new snapshot even if no delta is missing, because only
# snapshots show which checks are gone.
PRUNE_S = 10.0


class Metrics(Protocol):
    """What is counted of the queue; see result_handler/metrics.py."""

    def file(self, kind: str) -> None: ...

    def rejected(self, reason: str) -> None: ...

    def stretched(self, percent: int) -> None: ...


@dataclasses.dataclass
class QueueChanges:
    """The result of one look at the queue."""

    paths: list[pathlib.Path] = dataclasses.field(default_factory=list)
    changed: dict[int, int] = dataclasses.field(default_factory=dict)
    times: list[int] = dataclasses.field(default_factory=list)
    whole: bool = False  # whether checks may be gone, or anything has changed


class Results:
    """The last known result of each check, from snapshot and deltas."""

    def __init__(self, queue: queue_directory.QueueDirectory,
                 metrics: Metrics,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._queue = queue
        self._metrics = metrics
        self._clock = clock
        # Boot, last sequence applied.
        self._position: tuple[int, int] = (0, 0)
        # Least position of a needed snapshot.
        self._missing: tuple[int, int] | None = (0, 0)
        # Of the last snapshot that was read.
        self._stamp: tuple[int, int] | None = None
        self._loaded = 0.0
        self.last: dict[int, int] = {}  # key → verdict

    def update(self, rescan: bool = True) -> QueueChanges:
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

    def _read(self, paths: list[pathlib.Path], changes: QueueChanges
              ) -> list[queue_file.QueueFile]:
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

    def _require_snapshot(self, position: tuple[int, int]) -> None:
        self._missing = max(self._missing or (0, 0), position)

    def _look_at_snapshot(self, changes: QueueChanges, rescan: bool,
                          busy: bool) -> None:
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

    def _load_snapshot(self, changes: QueueChanges) -> None:
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

    def _apply_delta(self, delta: queue_file.QueueFile,
                     changes: QueueChanges) -> None:
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

    def _reject(self, path: pathlib.Path, reason: str, text: str) -> None:
        self._metrics.rejected(reason)
        self._queue.reject(path, text)
        # The writer of the queue is not trusted and chose the name.
        LOG.error('Queue file %s set aside: %s', ascii(path.name), text)
