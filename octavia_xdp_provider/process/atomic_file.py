# SPDX-License-Identifier: Apache-2.0
"""Replaces files atomically, by which processes exchange state."""

import contextlib
import os
import pathlib
import tempfile
import time

from octavia_xdp_provider.process import foreign_file

# Seconds after which a temporary file is considered a killed writer's.
_STALE_AFTER = 60


def replace(path: str | os.PathLike[str], data: bytes,
            mode: int = 0o644, clean: bool = True) -> bool:
    """Replace a file atomically.

    A reader sees the old or the new content, even after a power failure.

    :param clean: also remove temporary files of killed writers; the time for
        that grows with the directory.
    :returns: False if the file already had this content; it is not touched.
    """
    path = pathlib.Path(path)
    with contextlib.suppress(OSError):
        if foreign_file.read(path, len(data) + 1)[0] == data:
            return False
    prefix = f'.tmp-{path.name}-'
    if clean:
        _remove_stale(path.parent, prefix)
    handle, temporary = tempfile.mkstemp(prefix=prefix, dir=path.parent)
    try:
        with os.fdopen(handle, 'wb') as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True


def _remove_stale(folder: pathlib.Path, prefix: str) -> None:
    now = time.time()
    for old in folder.glob(f'{prefix}*'):
        with contextlib.suppress(OSError):
            if now - old.stat().st_mtime > _STALE_AFTER:
                old.unlink()
