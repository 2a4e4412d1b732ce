# SPDX-License-Identifier: Apache-2.0
"""The directory of the result queue, as its reader sees it.

See ``doc/source/reference/result-queue.rst`` for the hand-off between the
two sides, and ``result_queue`` for the files.
"""

import contextlib
import os
import pathlib
import re
from typing import NamedTuple

from octavia_xdp_provider.result_handler import queue_file
from octavia_xdp_provider.result_handler.queue_file import Kind
from octavia_xdp_provider.result_handler.queue_file import QueueFile
from octavia_xdp_provider.result_handler.queue_file import QueueFileError

SNAPSHOT_NAME: str = queue_file.CONTRACT['names']['snapshot']
REJECTED_NAME: str = queue_file.CONTRACT['names']['rejected']
TEMPORARY_PREFIX: str = queue_file.CONTRACT['names']['temporary_prefix']
_DELTA_NAME = re.compile(queue_file.CONTRACT['names']['delta_pattern'])


class SnapshotMark(NamedTuple):
    """What the header of a snapshot says; zeroes where there is none."""

    stamp: tuple[int, int]
    """Inode and time of change: no two snapshots have both."""
    position: tuple[int, int]
    """Boot and last sequence."""
    stretch_percent: int
    """How long the health checker's intervals are; 100 as asked for."""


class QueueDirectory:
    """The directory through which the files travel."""

    def __init__(
        self, path: str | os.PathLike[str], keep_rejected: int = 100
    ) -> None:
        self.path = pathlib.Path(path)
        self._keep_rejected = keep_rejected

    @property
    def snapshot_path(self) -> pathlib.Path:
        """Where the snapshot is, if there is one."""
        return self.path / SNAPSHOT_NAME

    def pending(self) -> list[pathlib.Path]:
        """Return the deltas that wait, in the order to apply them."""
        return self.scan()[0]

    def foreign(self) -> list[pathlib.Path]:
        """Return files that are none of the queue's, for `reject`."""
        return self.scan()[1]

    def scan(self) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
        """Return the deltas that wait and the foreign files, at one look."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            names = []
        deltas = []
        foreign = []
        for name in sorted(names):
            if _DELTA_NAME.fullmatch(name):
                deltas.append(self.path / name)
            elif name not in (
                SNAPSHOT_NAME,
                REJECTED_NAME,
            ) and not name.startswith(TEMPORARY_PREFIX):
                foreign.append(self.path / name)
        return deltas, foreign

    def read(self, path: pathlib.Path) -> QueueFile:
        """Decode one delta and hold it against its name.

        :raises QueueFileError: if it can't be used.
        :raises FileNotFoundError: if somebody else has removed it.
        """
        found = queue_file.decode(path.read_bytes())
        if found.kind != Kind.DELTA:
            raise QueueFileError('kind', f'kind {found.kind} as a delta')
        name = queue_file.delta_name(found.boot, found.first_sequence)
        if path.name != name:
            raise QueueFileError('name', path.name)
        return found

    def snapshot(self) -> QueueFile | None:
        """Decode the snapshot; None if there is none.

        :raises QueueFileError: if it can't be used.
        """
        try:
            data = self.snapshot_path.read_bytes()
        except FileNotFoundError:
            return None
        found = queue_file.decode(data)
        if found.kind != Kind.SNAPSHOT:
            raise QueueFileError('kind', f'kind {found.kind} as a snapshot')
        return found

    def snapshot_mark(self) -> SnapshotMark | None:
        """Return which snapshot there is, by its header alone.

        :returns: None if there is none.
        """
        try:
            with open(self.snapshot_path, 'rb') as file:
                stat = os.fstat(file.fileno())
                raw = file.read(queue_file.HEADER_SIZE)
        except FileNotFoundError:
            return None
        stamp = (stat.st_ino, stat.st_mtime_ns)
        return SnapshotMark(
            stamp, queue_file.position(raw), queue_file.stretch(raw)
        )

    def remove(self, path: pathlib.Path) -> None:
        """Remove a delta that has been applied."""
        path.unlink(missing_ok=True)

    def reject(self, path: pathlib.Path, reason: str) -> pathlib.Path | None:
        """Set a file aside with the reason in a text file beside it.

        Only the newest files are kept. Returns the new place, or None if
        the file had gone.
        """
        rejected = self.path / REJECTED_NAME
        rejected.mkdir(mode=0o770, exist_ok=True)
        place = _free_name(rejected, path.name)
        try:
            os.rename(path, place)
        except FileNotFoundError:
            return None
        # The file is no longer in the queue; the rest is for people.
        with contextlib.suppress(OSError):
            os.utime(place)
            place.with_name(place.name + '.reason').write_text(
                reason + '\n', encoding='utf-8'
            )
            self._prune(rejected)
        return place

    def _prune(self, rejected: pathlib.Path) -> None:
        files = [p for p in rejected.iterdir() if p.suffix != '.reason']
        files.sort(key=lambda p: (p.stat().st_mtime_ns, p.name))
        for old in files[: max(0, len(files) - self._keep_rejected)]:
            if not old.is_dir():
                old.unlink(missing_ok=True)
            old.with_name(old.name + '.reason').unlink(missing_ok=True)


def _free_name(folder: pathlib.Path, name: str) -> pathlib.Path:
    place = folder / name
    number = 0
    while os.path.lexists(place):
        number += 1
        place = folder / f'{name}.{number}'
    return place
