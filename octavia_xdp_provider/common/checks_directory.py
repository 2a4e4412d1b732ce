# SPDX-License-Identifier: Apache-2.0
"""Writer of the directory of checks files: one for each load balancer.

A change costs what it is about, and a file that the health checker refuses
stops nobody else's checks. Nobody but the node's processes reads them: they
name the targets of all tenants.
"""

from collections.abc import Mapping
import contextlib
import os
import pathlib
from typing import Any

from octavia_xdp_provider.common import atomic_file
from octavia_xdp_provider.common import checks_file

_SUFFIX = '.json'
_MODE = 0o600
_DIRECTORY_MODE = 0o700

# Of a file: whoever else writes it makes another one.
_Version = tuple[int, int, int]


class ChecksDirectory:
    """Belongs to one thread.

    :param before: the one file of earlier versions, which goes as soon as
        something was written here.
    """

    def __init__(self, directory: str, before: str | None = None) -> None:
        self._directory = pathlib.Path(directory)
        self._before = before and pathlib.Path(before)
        self._written: dict[str, _Version] = {}

    def make(self) -> None:
        """Make the directory, and remove what killed writers have left.

        :raises OSError: it cannot be made.
        """
        self._directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        for path in self._directory.glob('.*'):
            with contextlib.suppress(OSError):
                path.unlink()

    def look(self) -> tuple[set[str], set[str]]:
        """Names that are there, and those that somebody else has changed
        or removed since they were written."""
        found: dict[str, _Version] = {}
        try:
            with os.scandir(self._directory) as entries:
                for entry in entries:
                    if entry.name.endswith(_SUFFIX):
                        found[entry.name.removesuffix(_SUFFIX)] = _version(
                            entry.stat())
        except FileNotFoundError:
            pass
        changed = {name for name, version in self._written.items()
                   if found.get(name) != version}
        return set(found), changed

    def write(self, name: str, document: Mapping[str, Any]) -> bool:
        """Whether the file was another one.

        :raises OSError: it cannot be written; it is as it was.
        """
        path = self._path(name)
        written = atomic_file.replace(path, checks_file.encode(document),
                                      _MODE, clean=False)
        self._written[name] = _version(path.stat())
        if self._before:
            self._before.unlink(missing_ok=True)
            self._before = None
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
