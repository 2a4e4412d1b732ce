# SPDX-License-Identifier: Apache-2.0
"""The directory of the result queue, as its reader sees it.

See ``doc/source/reference/result-queue.rst`` for the hand-off between the
two sides, and ``result_queue`` for the files.

Its writer has fewer rights than its reader and may have been taken over:
nothing that it can write is followed, and what is set aside goes to a
directory that it cannot write.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import re
import stat
from typing import NamedTuple

from octavia_xdp_provider.common import foreign_file
from octavia_xdp_provider.result_handler import queue_file
from octavia_xdp_provider.result_handler.queue_file import Kind
from octavia_xdp_provider.result_handler.queue_file import QueueFile
from octavia_xdp_provider.result_handler.queue_file import QueueFileError

SNAPSHOT_NAME: str = queue_file.CONTRACT['names']['snapshot']
TEMPORARY_PREFIX: str = queue_file.CONTRACT['names']['temporary_prefix']
# Two million records; there are fewer checks.
BYTES_MAX = 1 << 26
# Deltas, and foreign files, that one look takes.
LOOK_MAX: int = queue_file.CONTRACT['constants']['max_pending_deltas']
# Of a name, so that there is room for what is added.
_NAME_BYTES = 200
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
    """The directory through which the files travel.

    :param rejected: where files go that are set aside: a directory that
        nobody but the reader can write. Without one they are removed.
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
        """Where the snapshot is, if there is one."""
        return self.path / SNAPSHOT_NAME

    def pending(self) -> list[pathlib.Path]:
        """Return the deltas that wait, in the order to apply them."""
        return self.scan()[0]

    def foreign(self) -> list[pathlib.Path]:
        """Return files that are none of the queue's, for `reject`."""
        return self.scan()[1]

    def scan(self) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
        """Return the deltas that wait and the foreign files, at one look.

        Directories are no business of a reader.
        """
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
        """Decode one delta and hold it against its name.

        :raises QueueFileError: if it can't be used.
        :raises FileNotFoundError: if somebody else has removed it.
        """
        found = self._decode(path.name)
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
            found = self._decode(SNAPSHOT_NAME)
        except FileNotFoundError:
            return None
        if found.kind != Kind.SNAPSHOT:
            raise QueueFileError('kind', f'kind {found.kind} as a snapshot')
        return found

    def snapshot_mark(self) -> SnapshotMark | None:
        """Return which snapshot there is, by its header alone.

        :returns: None if there is none.
        :raises QueueFileError: what has its name is no file.
        """
        try:
            raw, found = self._read(SNAPSHOT_NAME, queue_file.HEADER_SIZE)
        except FileNotFoundError:
            return None
        stamp = (found.st_ino, found.st_mtime_ns)
        return SnapshotMark(
            stamp, queue_file.position(raw), queue_file.stretch(raw)
        )

    def remove(self, path: pathlib.Path) -> None:
        """Remove a delta that has been applied."""
        with contextlib.suppress(FileNotFoundError), self._open() as queue:
            os.unlink(path.name, dir_fd=queue)

    def reject(self, path: pathlib.Path, reason: str) -> pathlib.Path | None:
        """Set a file aside with the reason in a text file beside it.

        Only the newest files are kept, and nothing but files. Returns the new
        place, or None if there is none.
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
        # Here nobody exchanges it any more.
        found = os.stat(place, dir_fd=rejected, follow_symlinks=False)
        if (
            not stat.S_ISREG(found.st_mode)
            or found.st_nlink > 1
            or found.st_size > BYTES_MAX
        ):
            _remove(place, rejected)
            return None
        # The file is no longer in the queue; the rest is for people.
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
                found = os.stat(name, dir_fd=rejected, follow_symlinks=False)
                ages[name] = found.st_mtime_ns
        names = sorted(ages, key=lambda name: (ages[name], name))
        for old in names[: max(0, len(names) - self._keep_rejected)]:
            _remove(old, rejected)
            _remove(old + '.reason', rejected)


def _remove(name: str, directory: int) -> None:
    """Whatever it is, but a directory that is not empty."""
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
