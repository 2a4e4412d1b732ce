# SPDX-License-Identifier: Apache-2.0
"""Users of the pages, with hashes of their passwords, in one file."""

import pathlib

from werkzeug import security

from bench import errors
from bench.reservations import folder as folders
from bench.reservations import words
from octavia_xdp_provider.common import atomic_file

NAME = 'users'
MODE = 0o600
PASSWORD_MIN, PASSWORD_MAX = 10, 256
# scrypt with N 2^15, r 8, p 1 (OWASP's second choice): 32 MiB for a look.
_METHOD = 'scrypt'
# What an unknown name is compared with, so that it takes as long.
_NOBODY = security.generate_password_hash('nobody', _METHOD)


class Users:
    """Those of a folder; read anew each time."""

    def __init__(self, folder: folders.Folder):
        self._folder = folder
        self._path = folder.path / NAME

    def set(self, name: str, password: str) -> None:
        """Add a user, or give another password.

        :raises errors.BenchError: a name or password that is none.
        """
        name = words.owner(name)
        if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
            raise errors.BenchError(
                f'a password has {PASSWORD_MIN} to {PASSWORD_MAX} characters')
        self._change({name: security.generate_password_hash(
            password, _METHOD)}, None)

    def remove(self, name: str) -> None:
        """:raises errors.BenchError: there is none."""
        if name not in self._read():
            raise errors.BenchError(f'there is no user {name[:40]!r}')
        self._change({}, name)

    def check(self, name: str, password: str) -> bool:
        """Whether this is the user's password."""
        known = self._read().get(name)
        right = security.check_password_hash(
            known or _NOBODY, password[:PASSWORD_MAX])
        return right and known is not None

    def stamp(self, name: str) -> str | None:
        """Changes with the password; None if there is no such user."""
        known = self._read().get(name)
        return known[-24:] if known is not None else None

    def _read(self) -> dict[str, str]:
        try:
            text = private(self._path)
        except FileNotFoundError:
            return {}
        pairs = (line.split(':', 1) for line in text.splitlines() if line)
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}

    def _change(self, added: dict[str, str], removed: str | None) -> None:
        self._folder.make()
        with self._folder.lock(NAME):
            known = {**self._read(), **added}
            if removed is not None:
                known.pop(removed, None)
            atomic_file.replace(self._path, ''.join(
                f'{name}:{hashed}\n' for name, hashed in sorted(known.items())
            ).encode(), MODE)


def private(path: pathlib.Path) -> str:
    """What a file has that nobody else may read.

    :raises FileNotFoundError: there is none.
    :raises errors.BenchError: others may read or write it.
    """
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        raise errors.BenchError(
            f'{path} has the mode {mode:04o}: others can read it; what is in '
            'it is no secret any more. Replace it, with mode 0600')
    return path.read_text()
