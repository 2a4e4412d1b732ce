# SPDX-License-Identifier: Apache-2.0
"""The reader's side of the result queue's directory.

See ``doc/source/reference/result-queue.rst`` for the hand-off between the
two sides, and ``queue_file`` for the files.

The writer has fewer privileges than the reader and may be compromised: no
link that it can create is followed, and rejected files are moved to a
directory that it cannot write to.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import re
import stat
from typing import NamedTuple

from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.health.queue_file import Kind
from octavia_xdp_provider.health.queue_file import QueueFile
from octavia_xdp_provider.health.queue_file import QueueFileError
from octavia_xdp_provider.process import foreign_file

SNAPSHOT_NAME: str = queue_file.CONTRACT['names']['snapshot']
TEMPORARY_PREFIX: str = queue_file.CONTRACT['names']['temporary_prefix']
# Two million records, more than there are checks.
BYTES_MAX = 1 << 26
# Limit of deltas, and of foreign files, in one look.
LOOK_MAX: int = queue_file.CONTRACT['constants']['max_pending_deltas']
# Limit of a rejected file's name, to have room for suffixes.
_NAME_BYTES = 200
_DELTA_NAME = re.compile(queue_file.CONTRACT['names']['delta_pattern'])


class SnapshotMark(NamedTuple):
    """Identity and header of a snapshot; zeroes without a whole header."""

    stamp: tuple[int, int]
    """Inode and modification time, which differ between snapshots."""
    position: tuple[int, int]
    """Boot and last sequence."""
    stretch_percent: int
    """Length of the health checker's intervals; 100 as configured."""


class QueueDirectory:
    """The directory of the queue's files.

    :param rejected: directory for rejected files, to which only the reader
        can write. If it cannot be used, rejected files are deleted.
    """

    def __init__(
        self, path: str | os.PathLike[str],
        rejected: str | os.PathLike[str], keep_rejected: int = 100
    ) -> None:
        self.path = pathlib.Path(path)
        self._rejected = pathlib.Path(rejected)
        self._keep_rejected = keep_rejected

    @property
    def snapshot_path(self) -> pathlib.Path:
        """Path of the snapshot, which may not exist."""
        return self.path / SNAPSHOT_NAME

    def pending(self) -> list[pathlib.Path]:
        """Return the pending deltas, in the order to apply them."""
        return self.scan()[0]

    def foreign(self) -> list[pathlib.Path]:
        """Return files that do not belong to the queue, for `reject`."""
        return self.scan()[1]

    def scan(self) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
        """Return (pending deltas, foreign files); ignore directories."""
        deltas = []
        foreign = []
        with (
            contextlib.suppress(FileNotFoundError),
            self._open() as queue,
            os.scandir(queue) as entries,
        ):
            for entry in entries:
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    continue
                if _DELTA_NAME.fullmatch(name):
                    deltas.append(name)
                elif name != SNAPSHOT_NAME and not name.startswith(
                    TEMPORARY_PREFIX
                ):
                    foreign.append(name)
        return (
            [self.path / name for name in sorted(deltas)[:LOOK_MAX]],
            [self.path / name for name in sorted(foreign)[:LOOK_MAX]],
        )

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        queue = foreign_file.open_directory(self.path)
        try:
            yield queue
        finally:
            os.close(queue)

    def _read(self, name: str, limit: int) -> tuple[bytes, os.stat_result]:
        with self._open() as queue:
            try:
                return foreign_file.read(name, limit, queue)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise QueueFileError(
                    'magic', error.strerror or str(error)
                ) from None

    def _decode(self, name: str) -> QueueFile:
        data, _stat = self._read(name, BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise QueueFileError('length', f'more than {BYTES_MAX} bytes')
        return queue_file.decode(data)

    def read(self, path: pathlib.Path) -> QueueFile:
        """Decode a delta and compare it with its name.

        :raises QueueFileError: it cannot be used.
        :raises FileNotFoundError: it was removed meanwhile.
        """
        delta = self._decode(path.name)
        if delta.kind != Kind.DELTA:
            raise QueueFileError('kind', f'kind {delta.kind} as a delta')
        name = queue_file.delta_name(delta.boot, delta.first_sequence)
        if path.name != name:
            raise QueueFileError('name', path.name)
        return delta

    def snapshot(self) -> QueueFile | None:
        """Decode the snapshot; return None if there is none.

        :raises QueueFileError: it cannot be used.
        """
        try:
            snapshot = self._decode(SNAPSHOT_NAME)
        except FileNotFoundError:
            return None
        if snapshot.kind != Kind.SNAPSHOT:
            raise QueueFileError('kind', f'kind {snapshot.kind} as a snapshot')
        return snapshot

    def snapshot_mark(self) -> SnapshotMark | None:
        """Return the mark of the snapshot, reading only its header.

        :returns: None if there is no snapshot.
        :raises QueueFileError: it is not a regular file.
        """
        try:
            raw, status = self._read(SNAPSHOT_NAME, queue_file.HEADER_SIZE)
        except FileNotFoundError:
            return None
        stamp = (status.st_ino, status.st_mtime_ns)
        return SnapshotMark(
            stamp, queue_file.position(raw), queue_file.stretch(raw)
        )

    def remove(self, path: pathlib.Path) -> None:
        """Remove a delta that has been applied."""
        with contextlib.suppress(FileNotFoundError), self._open() as queue:
            os.unlink(path.name, dir_fd=queue)

    def reject(self, path: pathlib.Path, reason: str) -> pathlib.Path | None:
        """Set a file aside, and write the reason to a text file beside it.

        Only regular files are kept, and only the newest. Returns the new path,
        or None if the file was not kept.
        """
        with contextlib.suppress(FileNotFoundError), self._open() as queue:
            try:
                rejected = foreign_file.open_own_directory(self._rejected)
            except OSError:
                _remove(path.name, queue)
                return None
            try:
                return self._move(path.name, queue, rejected, reason)
            finally:
                os.close(rejected)
        return None

    def _move(
        self, name: str, queue: int, rejected: int, reason: str
    ) -> pathlib.Path | None:
        place = _free_name(rejected, name)
        try:
            os.rename(name, place, src_dir_fd=queue, dst_dir_fd=rejected)
        except FileNotFoundError:
            return None
        except OSError:
            _remove(name, queue)
            return None
        # The writer can no longer replace it, so check it here.
        status = os.stat(place, dir_fd=rejected, follow_symlinks=False)
        if (
            not stat.S_ISREG(status.st_mode)
            or status.st_nlink > 1
            or status.st_size > BYTES_MAX
        ):
            _remove(place, rejected)
            return None
        # It is out of the queue, so errors from here on do not matter.
        with contextlib.suppress(OSError):
            os.utime(place, dir_fd=rejected, follow_symlinks=False)
            with open(
                place + '.reason', 'x', encoding='utf-8', errors='replace',
                opener=lambda path, flags: os.open(
                    path, flags, 0o640, dir_fd=rejected
                ),
            ) as file:
                file.write(reason + '\n')
            self._prune(rejected)
        return self._rejected / place

    def _prune(self, rejected: int) -> None:
        ages = {}
        for name in os.listdir(rejected):
            if not name.endswith('.reason'):
                status = os.stat(name, dir_fd=rejected, follow_symlinks=False)
                ages[name] = status.st_mtime_ns
        names = sorted(ages, key=lambda name: (ages[name], name))
        for old in names[: max(0, len(names) - self._keep_rejected)]:
            _remove(old, rejected)
            _remove(old + '.reason', rejected)


def _remove(name: str, directory: int) -> None:
    """Remove anything but a directory that is not empty."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=directory)


def _free_name(directory: int, name: str) -> str:
    short = os.fsdecode(os.fsencode(name)[:_NAME_BYTES])
    place = short
    number = 0
    with contextlib.suppress(FileNotFoundError):
        while os.stat(place, dir_fd=directory, follow_symlinks=False):
            number += 1
            place = f'{short}.{number}'
    return place
