# SPDX-License-Identifier: Apache-2.0
"""A secret that a node makes for itself and keeps over restarts."""

import os
import pathlib
import secrets

from oslo_log import log as logging

from octavia_xdp_provider.common import atomic_file
from octavia_xdp_provider.common import foreign_file

LOG = logging.getLogger(__name__)

BYTES = 32
_MODE = 0o600


def load(path: str | os.PathLike[str]) -> bytes:
    """The secret of a file, which is made where there is none.

    One that cannot be kept serves until the process ends.
    """
    path = pathlib.Path(path)
    try:
        found, file = foreign_file.read(path, BYTES + 1)
        if len(found) == BYTES and file.st_uid == os.geteuid():
            return found
        LOG.error('%s is not a secret of %s bytes and is made anew.', path,
                  BYTES)
    except FileNotFoundError:
        pass
    except OSError as error:
        LOG.error('%s cannot be read: %s.', path, error.strerror or error)
    made = secrets.token_bytes(BYTES)
    try:
        atomic_file.replace(path, made, _MODE)
    except OSError as error:
        LOG.error('%s cannot be written (%s): another secret follows with '
                  'the next start.', path, error.strerror or error)
    return made
