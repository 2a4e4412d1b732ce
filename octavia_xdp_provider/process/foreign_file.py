# SPDX-License-Identifier: Apache-2.0
"""Access to files in directories that less privileged processes can write.

A compromised process may plant links to files and directories of others,
pipes without a writer, or endless files. So links are not followed, nothing
blocks, and reads are bounded.
"""

import contextlib
import errno
import os
import stat

_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_file(path: str | os.PathLike[str], flags: int = os.O_RDONLY,
              directory: int | None = None) -> int:
    """Opener for ``open()``. It does not check that the file is regular.

    :raises OSError: ELOOP for a link.
    """
    return os.open(path, flags | _OPEN, dir_fd=directory)


def read(path: str | os.PathLike[str], limit: int,
         directory: int | None = None) -> tuple[bytes, os.stat_result]:
    """Return at most ``limit`` bytes of a regular file, and its status.

    :param directory: descriptor of the directory that the path is relative to.
    :raises OSError: EINVAL if the file is not regular, ELOOP for a link.
    """
    file = open_file(path, directory=directory)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, 'not a regular file', str(path))
        parts = []
        while limit and (part := os.read(file, limit)):
            parts.append(part)
            limit -= len(part)
        return b''.join(parts), status
    finally:
        os.close(file)


def open_directory(path: str | os.PathLike[str],
                   parent: int | None = None) -> int:
    """Return a descriptor of a directory, which the caller must close.

    :raises OSError: ENOTDIR or ELOOP if it is not a directory itself.
    """
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
                   | os.O_CLOEXEC, dir_fd=parent)


def open_own_directory(path: str | os.PathLike[str]) -> int:
    """The same for a directory that others cannot write; it is created if it
    does not exist.

    :raises OSError: EPERM if others can write it.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    directory = open_directory(path)
    try:
        _check_own(os.fstat(directory), path)
    except OSError:
        os.close(directory)
        raise
    return directory


def check_own(path: str | os.PathLike[str]) -> None:
    """:raises OSError: it is missing, a link, or others can write it."""
    _check_own(os.lstat(path), path)


def _check_own(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    if (status.st_uid != os.geteuid() or status.st_mode & 0o022
            or stat.S_ISLNK(status.st_mode)):
        raise OSError(errno.EPERM, 'others can write it', str(path))
