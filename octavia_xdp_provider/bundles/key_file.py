# SPDX-License-Identifier: Apache-2.0
"""A private key in a file, which must never be replaced by another one."""

import contextlib
import errno
import os
import pathlib
import secrets
import tempfile

from octavia_xdp_provider.process import foreign_file


def load(path: pathlib.Path, size: int) -> bytes:
    """Return the key of a file, which is created if it does not exist.

    Of several processes that create it at once all get the same key.

    :raises OSError: it cannot be read or written; EPERM if others may read it,
        EINVAL if it has not ``size`` bytes.
    """
    with contextlib.suppress(FileNotFoundError):
        return _read(path, size)
    handle, temporary = tempfile.mkstemp(prefix=f'.tmp-{path.name}-',
                                         dir=path.parent)
    try:
        with os.fdopen(handle, 'wb') as file:
            file.write(secrets.token_bytes(size))
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
    return _read(path, size)


def _read(path: pathlib.Path, size: int) -> bytes:
    key, status = foreign_file.read(path, size + 1)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise OSError(errno.EPERM, 'others may read the private key; its '
                      'owner must be this process\'s user, its mode 0600',
                      str(path))
    if len(key) != size:
        raise OSError(errno.EINVAL, f'it is no key of {size} bytes', str(path))
    return key
