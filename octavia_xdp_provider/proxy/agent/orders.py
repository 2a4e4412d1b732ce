# SPDX-License-Identifier: Apache-2.0
"""Writes what the launcher is to run, see contracts/proxy_launch.py."""

import contextlib
import json
import os
import pathlib
import shutil
from typing import NamedTuple

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.process import atomic_file
from octavia_xdp_provider.proxy.agent import plans
from octavia_xdp_provider.proxy.agent import run_directory

_DIRECTORY_MODE, _MODE = 0o700, 0o600
# What begins so is being made, or being removed.
_HIDDEN = '.'

_Status = tuple[int, int, int]


class _Written(NamedTuple):
    """A plan, and the status of each of its files after it was written."""

    plan: plans.Plan
    statuses: tuple[_Status | None, ...]


class Orders:
    """The files of all load balancers. Not thread-safe.

    What is there already is compared and left as it is, so that nothing of it
    changes when an agent is restarted.
    """

    def __init__(self, files: run_directory.RunDirectory) -> None:
        self._orders = pathlib.Path(files.orders)
        self._secrets = pathlib.Path(files.secrets)
        self._written: dict[str, _Written] = {}

    def clean(self) -> None:
        """Remove what a killed agent has left in the middle of something.

        :raises OSError: a directory cannot be read.
        """
        for top in self._orders, self._secrets:
            for path in top.glob(f'{_HIDDEN}*'):
                shutil.rmtree(path, ignore_errors=True)

    def ids(self) -> set[str]:
        """Return the load balancers that have files.

        :raises OSError: the directory cannot be read.
        """
        return {name for top in (self._orders, self._secrets)
                for name in os.listdir(top) if not name.startswith(_HIDDEN)}

    def numbers(self) -> dict[str, int]:
        """Return the numbers in launch files by load balancer id."""
        numbers = {}
        for path in self._orders.glob(f'[!.]*/{proxy_launch.LAUNCH}'):
            with contextlib.suppress(OSError, ValueError, KeyError,
                                     TypeError):
                numbers[path.parent.name] = int(
                    json.loads(path.read_bytes())['number'])
        return numbers

    def has(self, key: str, plan: plans.Plan) -> bool:
        """Return whether what is there is known to be this plan."""
        written = self._written.get(key)
        return (written is not None and written.plan is plan
                and written.statuses == self._statuses(key, plan))

    def has_text(self, key: str, text: bytes) -> bool:
        """Return whether this is the configuration that is there."""
        try:
            return self._configuration(key).read_bytes() == text
        except OSError:
            return False

    def write(self, key: str, plan: plans.Plan) -> None:
        """Make the files of a load balancer be as planned.

        :raises OSError: one of them cannot be written.
        """
        self._written.pop(key, None)
        name = plan.launch['certificates']
        if name is not None:
            self._write_certificates(key, name, plan.certificates)
        with contextlib.suppress(FileExistsError):
            (self._orders / key).mkdir(_DIRECTORY_MODE)
        atomic_file.replace(self._configuration(key), plan.configuration,
                            _MODE)
        atomic_file.replace(self._launch(key), json.dumps(
            plan.launch, indent=1).encode(), _MODE)
        # The launcher that has read another launch file copies certificates
        # again when it has read this one.
        self._remove_certificates(key, name)
        self._written[key] = _Written(plan, self._statuses(key, plan))

    def remove(self, key: str) -> None:
        """Have nothing run for a load balancer.

        :raises OSError: its files cannot be removed.
        """
        self._written.pop(key, None)
        for top in self._orders, self._secrets:
            hidden = top / f'{_HIDDEN}{key}'
            shutil.rmtree(hidden, ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):
                (top / key).rename(hidden)
            shutil.rmtree(hidden, ignore_errors=True)

    def _configuration(self, key: str) -> pathlib.Path:
        return self._orders / key / proxy_launch.CONFIGURATION

    def _launch(self, key: str) -> pathlib.Path:
        return self._orders / key / proxy_launch.LAUNCH

    def _write_certificates(self, key: str, name: str,
                            contents: dict[str, bytes]) -> None:
        """Create a directory, whose name follows from what is in it. It
        appears at once, with all files."""
        top = self._secrets / key
        if (top / name).is_dir():
            return
        with contextlib.suppress(FileExistsError):
            top.mkdir(_DIRECTORY_MODE)
        hidden = top / f'{_HIDDEN}{name}'
        shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir(_DIRECTORY_MODE)
        for file, content in contents.items():
            descriptor = os.open(hidden / file, os.O_WRONLY | os.O_CREAT
                                 | os.O_EXCL, _MODE)
            with os.fdopen(descriptor, 'wb') as opened:
                opened.write(content)
        hidden.rename(top / name)

    def _remove_certificates(self, key: str, kept: str | None) -> None:
        with contextlib.suppress(FileNotFoundError):
            for path in (self._secrets / key).iterdir():
                if path.name != kept:
                    shutil.rmtree(path, ignore_errors=True)

    def _statuses(self, key: str, plan: plans.Plan
                  ) -> tuple[_Status | None, ...]:
        paths = [self._configuration(key), self._launch(key)]
        name = plan.launch['certificates']
        if name is not None:
            paths.append(self._secrets / key / name)
        return tuple(map(_status, paths))


def _status(path: pathlib.Path) -> _Status | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
