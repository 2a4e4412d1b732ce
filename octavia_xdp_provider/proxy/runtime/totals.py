# SPDX-License-Identifier: Apache-2.0
"""Counters of a load balancer over all its HAProxy processes.

Each process begins at 0. What processes that have ended had counted is kept,
so that sums never decrease, and in a file, so that an agent that is started
again goes on with them.
"""

from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Mapping
import json
import os
import pathlib
from typing import Any

from oslo_log import log as logging

from octavia_xdp_provider.process import atomic_file
from octavia_xdp_provider.proxy.runtime import answers

LOG = logging.getLogger(__name__)

_MODE = 0o600
# Columns of statistics that only grow.
COLUMNS = (
    'stot', 'bin', 'bout', 'dreq', 'dresp', 'ereq', 'econ', 'eresp', 'wretr',
    'wredis', 'hrsp_1xx', 'hrsp_2xx', 'hrsp_3xx', 'hrsp_4xx', 'hrsp_5xx',
    'hrsp_other', 'req_tot', 'cli_abrt', 'srv_abrt', 'lbtot', 'comp_in',
    'comp_out', 'comp_byp', 'comp_rsp', 'conn_tot', 'intercepted', 'dcon',
    'dses', 'wrew', 'connect', 'reuse', 'cache_lookups', 'cache_hits')

# Counts by column, without those of 0; by "<proxy>/<server>".
Counts = dict[str, dict[str, int]]


def key_of(row: answers.Row) -> str:
    return f'{row["pxname"]}/{row["svname"]}'


class Totals:
    """:param path: of the file."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._ended: Counts = {}
        self._processes: dict[int, Counts] = {}
        self._load()

    def _load(self) -> None:
        try:
            saved: Any = json.loads(self._path.read_bytes())
            ended = _counts(saved['ended'])
            processes = {int(pid): _counts(counts) for pid, counts
                         in saved['processes'].items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError
                ) as error:
            LOG.error('%s cannot be used (%s): counters of earlier processes '
                      'are lost.', self._path, error)
            return
        self._ended, self._processes = ended, processes

    def processes(self) -> set[int]:
        """Return the processes that are not known to have ended."""
        return set(self._processes)

    def take(self, pid: int, rows: Iterable[answers.Row]) -> None:
        """Take the statistics of a process."""
        counts = {key_of(row): {
            column: value for column in COLUMNS
            if (value := answers.number(row, column))} for row in rows}
        before = self._processes.get(pid, {})
        if any(counts.get(key, {}).get(column, 0) < value
               for key, values in before.items()
               for column, value in values.items() if key in counts):
            # Another process has the same number.
            self.end(pid)
            before = {}
        self._processes[pid] = {**before, **counts}

    def end(self, pid: int) -> None:
        """Note that a process has ended."""
        self._ended = _add(self._ended, self._processes.pop(pid, {}))

    def keep(self, proxies: Container[str]) -> None:
        """Forget the counters of proxies that are none of these."""
        for counts in (self._ended, *self._processes.values()):
            for key in [key for key in counts
                        if key.partition('/')[0] not in proxies]:
                del counts[key]

    def sums(self) -> Counts:
        result: Counts = self._ended
        for counts in self._processes.values():
            result = _add(result, counts)
        return result

    def save(self) -> None:
        """:raises OSError: the file cannot be written."""
        atomic_file.replace(self._path, json.dumps({
            'ended': self._ended, 'processes': self._processes}).encode(),
            _MODE, clean=False)

    def remove(self) -> None:
        """Forget the load balancer."""
        self._path.unlink(missing_ok=True)


def clean(directory: pathlib.Path) -> None:
    """Remove what a killed agent has left in the middle of writing.

    :raises OSError: it cannot be removed.
    """
    for path in directory.glob('.*'):
        os.unlink(path)


def _add(first: Mapping[str, dict[str, int]],
         second: Mapping[str, dict[str, int]]) -> Counts:
    return {key: {
        column: first.get(key, {}).get(column, 0)
        + second.get(key, {}).get(column, 0)
        for column in first.get(key, {}) | second.get(key, {})}
        for key in first.keys() | second.keys()}


def _counts(saved: Mapping[str, Mapping[str, int]]) -> Counts:
    """Return counts that were saved, or fail."""
    return {key: {column: int(value) for column, value in values.items()}
            for key, values in saved.items()}
