# SPDX-License-Identifier: Apache-2.0
"""What the launcher says that runs."""

from collections.abc import Iterable
import json
import os
import pathlib
from typing import Any

from oslo_log import log as logging

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import proxy_launch

LOG = logging.getLogger(__name__)

_SUFFIX = '.json'


class States:
    """States by load balancer id; for one thread.

    :ivar by_id: None for a state that cannot be used.
    :ivar problem: why the states are not known, or None.
    """

    def __init__(self, directory: str) -> None:
        self._directory = pathlib.Path(directory)
        self._statuses: dict[str, tuple[int, int]] = {}
        self.by_id: dict[str, proxy_launch.State | None] = {}
        self.problem: str | None = 'the states have not been read yet'

    def look(self) -> set[str]:
        """Read what has changed; return its ids."""
        try:
            with os.scandir(self._directory) as entries:
                ids = {identity(entry.name) for entry in entries
                       if is_state(entry.name)}
        except OSError as error:
            self.problem = (f'{self._directory} cannot be read '
                            f'({error.strerror}): octavia-xdp-proxy-launcher '
                            'has not been started on this node')
            return set()
        self.problem = None
        return self.read(ids | self.by_id.keys())

    def read(self, ids: Iterable[str]) -> set[str]:
        """Read these; return the ids of those that have changed."""
        changed = set()
        for key in ids:
            path = self._directory / f'{key}{_SUFFIX}'
            try:
                status = _status(path)
                if self._statuses.get(key) == status:
                    continue
                state = _parse(path)
            except FileNotFoundError:
                if key in self.by_id:
                    changed.add(key)
                    del self.by_id[key]
                    self._statuses.pop(key, None)
                continue
            except OSError as error:
                LOG.error('%s cannot be read: %s', path, error)
                continue
            self._statuses[key] = status
            self.by_id[key] = state
            changed.add(key)
        return changed


def is_state(name: str) -> bool:
    return name.endswith(_SUFFIX) and not name.startswith('.')


def identity(name: str) -> str:
    """Return the load balancer of a file with a state."""
    return name.removesuffix(_SUFFIX)


def _status(path: pathlib.Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def _parse(path: pathlib.Path) -> proxy_launch.State | None:
    state: Any
    try:
        state = json.loads(path.read_bytes())
        proxy_launch.STATE_SHAPE.check(state)
    except (errors.Refused, ValueError) as error:
        LOG.error('%s cannot be used: %s', path, error)
        return None
    checked: proxy_launch.State = state
    return checked
