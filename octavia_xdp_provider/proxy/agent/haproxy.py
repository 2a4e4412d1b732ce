# SPDX-License-Identifier: Apache-2.0
"""The version of HAProxy on this node."""

import os
import re
import subprocess

# The oldest version that the configurations are for.
OLDEST = (2, 6)
_TIMEOUT_S = 10.0
_VERSION = re.compile(rb'HAProxy version (\d+)\.(\d+)')


class Program:
    """[proxy] haproxy, which may be replaced at any time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._version = (0, 0)

    def version(self) -> tuple[int, int]:
        """Return major and minor version.

        :raises OSError: the program cannot be run.
        :raises ValueError: it is not HAProxy, or too old.
        """
        status = os.stat(self._path)
        seen = status.st_dev, status.st_ino, status.st_mtime_ns
        if seen != self._seen:
            self._version = self._ask()
            self._seen = seen
        return self._version

    def _ask(self) -> tuple[int, int]:
        try:
            done = subprocess.run([self._path, '-v'], capture_output=True,
                                  check=False, timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise ValueError(f'{self._path} -v does not answer') from error
        matched = _VERSION.match(done.stdout)
        if not matched:
            raise ValueError(f'{self._path} is not HAProxy')
        version = int(matched[1]), int(matched[2])
        if version < OLDEST:
            raise ValueError(
                f'{self._path} is HAProxy {version[0]}.{version[1]}; install '
                f'{OLDEST[0]}.{OLDEST[1]} or later')
        return version
