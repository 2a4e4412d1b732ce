# SPDX-License-Identifier: Apache-2.0
"""Disk space reserved for a file on a shared file system.

Withdrawing a VIP must not fail because a log has filled the file system.
"""

import contextlib
import errno
import os

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Reserve:
    """A file that is truncated when space is needed.

    :param bytes_max: its size in bytes.
    """

    def __init__(self, path: str, bytes_max: int) -> None:
        self._path = path
        self._bytes = bytes_max

    def fill(self) -> None:
        """Reserve the space, unless it is reserved or not available."""
        with contextlib.suppress(OSError):
            if os.lstat(self._path).st_size >= self._bytes:
                return
        with contextlib.suppress(OSError):
            descriptor = os.open(
                self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
                | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self._bytes)
            finally:
                os.close(descriptor)

    def give(self, error: OSError) -> bool:
        """Free the space if the error is a lack of it; return whether any
        was freed."""
        if error.errno not in _FULL:
            return False
        try:
            if not os.lstat(self._path).st_size:
                return False
            os.truncate(self._path, 0)
        except OSError:
            return False
        return True
