# SPDX-License-Identifier: Apache-2.0
"""Writer of the directory of checks files: one file per load balancer.

So the cost of a change does not depend on other load balancers, and a refused
file does not stop their checks. The files name the targets of all tenants, so
only the node's processes can read them, the health checker by its group.
"""

from collections.abc import Mapping
import contextlib
import os
import pathlib
from typing import Any

from octavia_xdp_provider.health import checks_file
from octavia_xdp_provider.process import atomic_file
from octavia_xdp_provider.process import foreign_file

_SUFFIX = '.json'
_MODE = 0o640
_DIRECTORY_MODE = 0o750

# Of a file: inode, size and modification time. Replacing it changes the inode.
_Version = tuple[int, int, int]
# Scans after which every file has been checked for writes. The directory lists
# names and inodes; size and time take a system call per file.
LOOKS = 30


class ChecksDirectory:
    """Not thread-safe."""

    def __init__(self, directory: str) -> None:
        self._directory = pathlib.Path(directory)
        self._written: dict[str, _Version] = {}
        self._looks = 0

    def make(self) -> None:
        """Create the directory and remove leftovers of killed writers.

        :raises OSError: the directory cannot be created.
        """
        self._directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        foreign_file.check_own(self._directory)
        self._directory.chmod(_DIRECTORY_MODE)
        # Files of an earlier start may have another group.
        for path in (self._directory, *self._directory.glob(f'*{_SUFFIX}')):
            with contextlib.suppress(OSError):
                os.chown(path, -1, os.getegid())
                if path != self._directory:
                    path.chmod(_MODE)
        for path in self._directory.glob('.*'):
            with contextlib.suppress(OSError):
                path.unlink()

    def look(self) -> tuple[set[str], set[str]]:
        """Return the names of all files, and of those that another process
        has replaced or removed since they were written. Modified files are
        detected too, after at most LOOKS calls."""
        files: dict[str, os.DirEntry[str]] = {}
        try:
            with os.scandir(self._directory) as entries:
                for entry in entries:
                    if entry.name.endswith(_SUFFIX):
                        files[entry.name.removesuffix(_SUFFIX)] = entry
        except FileNotFoundError:
            pass
        part, self._looks = self._looks % LOOKS, self._looks + 1
        changed = set()
        for number, (name, version) in enumerate(self._written.items()):
            file = files.get(name)
            if (file is None or file.inode() != version[0]
                    or (number % LOOKS == part
                        and _version(file.stat()) != version)):
                changed.add(name)
        return set(files), changed

    def write(self, name: str, document: Mapping[str, Any]) -> bool:
        """Write a file. Returns whether its content has changed.

        :raises OSError: it cannot be written and is unchanged.
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


def _version(status: os.stat_result) -> _Version:
    return status.st_ino, status.st_size, status.st_mtime_ns
