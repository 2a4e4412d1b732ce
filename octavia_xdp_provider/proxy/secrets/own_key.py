# SPDX-License-Identifier: Apache-2.0
"""The key pair of a proxy node, for which controllers seal secrets.

The private key never leaves its file. The public one is written beside it, so
that it can be printed without the right to read the other.
"""

import contextlib
import pathlib

from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.process import atomic_file

_PRIVATE = 'private-key'
_PUBLIC = 'public-key'


def load(directory: str) -> sealing.KeyPair:
    """Return the pair of a state directory, which is created if there is none.

    :raises OSError: the directory is missing, or a file cannot be read or
        written.
    """
    path = pathlib.Path(directory)
    pair = sealing.KeyPair.load(path / _PRIVATE)
    atomic_file.replace(path / _PUBLIC, f'{pair.public}\n'.encode())
    return pair


def public_key(directory: str) -> str:
    """Return the public key, for the operator; the pair is created if there
    is none.

    :raises OSError: see load().
    """
    path = pathlib.Path(directory)
    with contextlib.suppress(FileNotFoundError):
        return (path / _PUBLIC).read_text().strip()
    return load(directory).public
