# SPDX-License-Identifier: Apache-2.0
"""The folder that contains reservations, and its locks."""

from collections.abc import Iterator
import contextlib
import fcntl
import os
import pathlib
import time

import sqlalchemy

from bench import errors
from testbed import database
from testbed import inventory
from testbed import leases

DEFAULT = pathlib.Path('/var/lib/octavia-xdp-bench')
INVENTORY = 'inventory.yaml'
WAIT_S = 60
_LOOK_AGAIN_S = 0.05


class Folder:
    """The folder of inventory, database, repository and keys.

    :param ansible: the program ansible-playbook; None to search for it.
    """

    def __init__(self, path: pathlib.Path,
                 inventory_path: pathlib.Path | None = None,
                 ansible: str | None = None):
        self.path = path.resolve()
        self.inventory_path = (inventory_path.resolve() if inventory_path
                               else self.path / INVENTORY)
        self.ansible = ansible

    def arguments(self) -> list[str]:
        """Return arguments of the command for this folder."""
        words = [f'--folder={self.path}', f'--inventory={self.inventory_path}']
        return words + ([f'--ansible-playbook={self.ansible}']
                        if self.ansible else [])

    def make(self) -> None:
        """Create the folder. It contains keys, so others cannot list it, but
        they can reach files served by the boot server.

        :raises errors.BenchError: it cannot be created.
        """
        try:
            self.path.mkdir(mode=0o711, parents=True, exist_ok=True)
        except OSError as error:
            raise errors.BenchError(
                f'{self.path}: {error.strerror}; --folder names another'
            ) from error

    def inventory(self) -> inventory.Inventory:
        """:raises errors.DeclarationError: it is missing or invalid."""
        return inventory.load(self.inventory_path)

    def engine(self) -> sqlalchemy.Engine:
        """Open the database; create it if it does not exist."""
        self.make()
        return database.open_file(self.path / database.FILE)

    def leases(self) -> leases.Leases:
        """Return the leases in the database."""
        return leases.Leases(self.engine())

    @contextlib.contextmanager
    def lock(self, name: str, wait_s: float = WAIT_S) -> Iterator[None]:
        """Hold a lock of this folder, which ends with the process.

        :param wait_s: 0 to fail at once.
        :raises errors.BenchError: another process has it.
        """
        end = time.monotonic() + wait_s
        with open(self.path / f'{name}.lock', 'a+') as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= end:
                        file.seek(0)
                        raise errors.BenchError(
                            f'"{name}" runs in process '
                            f'{file.read().strip() or "?"} already; wait for '
                            'its end') from None
                    time.sleep(_LOOK_AGAIN_S)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def locked(self, name: str) -> bool:
        """Whether a process holds a lock now."""
        try:
            with self.lock(name, wait_s=0):
                return False
        except errors.BenchError:
            return True
