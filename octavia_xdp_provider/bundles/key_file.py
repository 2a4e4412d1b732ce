# SPDX-License-Identifier: Apache-2.0
"""A private key in a file, which must never be replaced by another one."""

import contextlib
import errno
import os
import pathlib
import secrets
import tempfile

from octavia_xdp_provider.process import foreign_file

_SIZE_MAX = 1 << 16


def load(path: pathlib.Path, size: int) -> bytes:
    """Return the key of a file, which is created if it does not exist.

    Of several processes that create it at once all get the same key.

    :raises OSError: it cannot be read or written; EPERM if others may read it,
        EINVAL if it has not ``size`` bytes.
    """
    return create(path, secrets.token_bytes(size), size)


def create(path: pathlib.Path, content: bytes,
           size: int | None = None) -> bytes:
    """Return the content of a private file, which is created with this one if
    it does not exist.

    :raises OSError: see load().
    """
    with contextlib.suppress(FileNotFoundError):
        return read(path, size)
    handle, temporary = tempfile.mkstemp(prefix=f'.tmp-{path.name}-',
                                         dir=path.parent)
    try:
        with os.fdopen(handle, 'wb') as file:
            if os.geteuid() == 0:
                # The process that is to read it owns the directory.
                owner = os.stat(path.parent)
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return read(path, size)


def read(path: pathlib.Path, size: int | None = None) -> bytes:
    """Return the content of a private file.

    :param size: of the content in bytes; None: any up to a limit.
    :raises OSError: see load().
    """
    key, status = foreign_file.read(
        path, (_SIZE_MAX if size is None else size) + 1)
    if (os.geteuid() not in (0, status.st_uid)
            or status.st_mode & 0o077):
        raise OSError(errno.EPERM, 'others may read the private key; its '
                      'owner must be this process\'s user, its mode 0600',
                      str(path))
    if size is None and len(key) > _SIZE_MAX:
        raise OSError(errno.EFBIG, f'it has more than {_SIZE_MAX} bytes',
                      str(path))
    if size is not None and len(key) != size:
        raise OSError(errno.EINVAL, f'it is no key of {size} bytes', str(path))
    return key
