# SPDX-License-Identifier: Apache-2.0
"""Files below directories that processes with fewer rights can write.

Whoever was taken over there plants what it likes: links to files and
directories of others, pipes that nobody writes, files without end. So nothing
is followed, waited for, or read beyond a bound.
"""

import contextlib
import errno
import os
import stat

_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_file(path: str | os.PathLike[str], flags: int = os.O_RDONLY,
              directory: int | None = None) -> int:
    """An opener for ``open()``; whether it is a regular file is open.

    :raises OSError: ELOOP of a link.
    """
    return os.open(path, flags | _OPEN, dir_fd=directory)


def read(path: str | os.PathLike[str], limit: int,
         directory: int | None = None) -> tuple[bytes, os.stat_result]:
    """The first bytes of a regular file, at most so many, and its inode.

    :param directory: descriptor of the directory that the path begins at.
    :raises OSError: EINVAL of what is no regular file, ELOOP of a link.
    """
    file = open_file(path, directory=directory)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, 'not a regular file', str(path))
        parts = []
        while limit and (part := os.read(file, limit)):
            parts.append(part)
            limit -= len(part)
        return b''.join(parts), found
    finally:
        os.close(file)


def open_directory(path: str | os.PathLike[str],
                   parent: int | None = None) -> int:
    """A descriptor, of which the caller disposes.

    :raises OSError: ENOTDIR or ELOOP of what is no directory itself.
    """
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
                   | os.O_CLOEXEC, dir_fd=parent)


def open_own_directory(path: str | os.PathLike[str]) -> int:
    """The same of a directory that nobody else can write, made if it is not
    there.

    :raises OSError: EPERM of one that others can write.
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
    """
    :raises OSError: it is not there, is a link, or others can write it.
    """
    _check_own(os.lstat(path), path)


def _check_own(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    if (found.st_uid != os.geteuid() or found.st_mode & 0o022
            or stat.S_ISLNK(found.st_mode)):
        raise OSError(errno.EPERM, 'others can write it', str(path))
