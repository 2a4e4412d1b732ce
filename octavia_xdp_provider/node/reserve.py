# SPDX-License-Identifier: Apache-2.0
"""Room for a file on a file system that others fill.

What takes a VIP back must not fail because a log has grown.
"""

import contextlib
import errno
import os

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Reserve:
    """A file that is given up when there is no other room.

    :param bytes_max: how much it keeps.
    """

    def __init__(self, path: str, bytes_max: int) -> None:
        self._path = path
        self._bytes = bytes_max

    def fill(self) -> None:
        """Keep room, if there is some and it is not kept yet."""
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
        """Give the room up if it helps against an error. Whether it may."""
        if error.errno not in _FULL:
            return False
        try:
            if not os.lstat(self._path).st_size:
                return False
            os.truncate(self._path, 0)
        except OSError:
            return False
        return True
