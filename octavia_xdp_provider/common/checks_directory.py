# SPDX-License-Identifier: Apache-2.0
"""Writer of the directory of checks files: one for each load balancer.

A change costs what it is about, and a file that the health checker refuses
stops nobody else's checks. Nobody but the node's processes reads them, the
health checker by its group: they name the targets of all tenants.
"""

from collections.abc import Mapping
import contextlib
import os
import pathlib
from typing import Any

from octavia_xdp_provider.common import atomic_file
from octavia_xdp_provider.common import checks_file
from octavia_xdp_provider.common import foreign_file

_SUFFIX = '.json'
_MODE = 0o640
_DIRECTORY_MODE = 0o750

# Of a file, its inode first: whoever else replaces it makes another one.
_Version = tuple[int, int, int]
# Looks after which what is in each file was looked at. Names and inodes come
# with the directory; the rest takes a system call for each.
LOOKS = 30


class ChecksDirectory:
    """Belongs to one thread."""

    def __init__(self, directory: str) -> None:
        self._directory = pathlib.Path(directory)
        self._written: dict[str, _Version] = {}
        self._looks = 0

    def make(self) -> None:
        """Make the directory, and remove what killed writers have left.

        :raises OSError: it cannot be made.
        """
        self._directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        foreign_file.check_own(self._directory)
        self._directory.chmod(_DIRECTORY_MODE)
        # Of another group.
        for path in (self._directory, *self._directory.glob(f'*{_SUFFIX}')):
            with contextlib.suppress(OSError):
                os.chown(path, -1, os.getegid())
                if path != self._directory:
                    path.chmod(_MODE)
        for path in self._directory.glob('.*'):
            with contextlib.suppress(OSError):
                path.unlink()

    def look(self) -> tuple[set[str], set[str]]:
        """Names that are there, and those that somebody else has replaced
        or removed since they were written; in their turn, also those that
        somebody has written into."""
        found: dict[str, os.DirEntry[str]] = {}
        try:
            with os.scandir(self._directory) as entries:
                for entry in entries:
                    if entry.name.endswith(_SUFFIX):
                        found[entry.name.removesuffix(_SUFFIX)] = entry
        except FileNotFoundError:
            pass
        part, self._looks = self._looks % LOOKS, self._looks + 1
        changed = set()
        for number, (name, version) in enumerate(self._written.items()):
            there = found.get(name)
            if (there is None or there.inode() != version[0]
                    or (number % LOOKS == part
                        and _version(there.stat()) != version)):
                changed.add(name)
        return set(found), changed

    def write(self, name: str, document: Mapping[str, Any]) -> bool:
        """Whether the file was another one.

        :raises OSError: it cannot be written; it is as it was.
        """
        path = self._path(name)
        written = atomic_file.replace(path, checks_file.encode(document),
                                      _MODE, clean=False)
        self._written[name] = _version(path.stat())
        return written

    def load(self, name: str) -> dict[str, Any]:
        """:raises OSError: the file cannot be read.

        :raises ChecksFileError: the health checker would refuse it.
        """
        return checks_file.load(self._path(name))

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)
        self._written.pop(name, None)

    def _path(self, name: str) -> pathlib.Path:
        return self._directory / f'{name}{_SUFFIX}'


def _version(found: os.stat_result) -> _Version:
    return found.st_ino, found.st_size, found.st_mtime_ns
