# SPDX-License-Identifier: Apache-2.0
"""A secret that a node generates for itself and keeps across restarts."""

import os
import pathlib
import secrets

from oslo_log import log as logging

from octavia_xdp_provider.process import atomic_file
from octavia_xdp_provider.process import foreign_file

LOG = logging.getLogger(__name__)

BYTES = 32
_MODE = 0o600


def load(path: str | os.PathLike[str]) -> bytes:
    """Return the secret of a file, which is created if it does not exist.

    A secret that cannot be saved is used until the process ends.
    """
    path = pathlib.Path(path)
    try:
        secret, file = foreign_file.read(path, BYTES + 1)
        if len(secret) == BYTES and file.st_uid == os.geteuid():
            return secret
        LOG.error('%s is not a secret of %s bytes and is replaced.', path,
                  BYTES)
    except FileNotFoundError:
        pass
    except OSError as error:
        LOG.error('%s cannot be read: %s.', path, error.strerror or error)
    secret = secrets.token_bytes(BYTES)
    try:
        atomic_file.replace(path, secret, _MODE)
    except OSError as error:
        LOG.error('%s cannot be written (%s): the next start uses another '
                  'secret.', path, error.strerror or error)
    return secret
