# SPDX-License-Identifier: Apache-2.0
"""Reads the status of this node's health checker.

The checker's socket answers with lines of JSON: the first describes the
checker, and the others, which are not read here, single checks.
"""

import json
import socket
import time
from typing import Any
from typing import NamedTuple

# Seconds to wait; the checker serves one client at a time.
ANSWER_TIMEOUT_S = 0.5
# A line has a few hundred bytes, plus 20 for each of at most 1,000 checks.
_LINE_BYTES_MAX = 65536
_FIGURE_MAX = 1 << 53
_FIELDS = ('checks', 'up', 'down', 'unknown', 'conditions', 'panics',
           'withheld', 'stretch_percent', 'used_permille', 'late_p99_ms',
           'own_late_s')


class Settling(NamedTuple):
    """The checks that are not settled: without a result since uplinks work
    again, or in doubt.

    ``families``: family → the checker's since_ns of uplinks. ``number``: of
    unsettled checks. ``keys``: their keys, incomplete if there are many.
    ``unwritten``: whether changes are not in the queue yet.
    """

    families: dict[int, int]
    number: int
    keys: frozenset[str]
    unwritten: bool


def read(path: str) -> dict[str, float] | None:
    """Return the checker's figures by name; None if it does not answer.

    ``stretch_percent``: length of its intervals, 100 if it keeps up.
    ``late_p99_ms``: 99th percentile of the lateness of probes in the last
    second. ``own_late_s``: total delay of its threads since its start.
    """
    status = _read_status(path)
    if status is None:
        return None
    return {name: status[name] for name in _FIELDS
            if _is_figure(status.get(name))}


def _is_figure(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < _FIGURE_MAX


def settling(path: str) -> Settling | None:
    """Return the unsettled checks; None without an answer, or if fields are
    missing."""
    status = _read_status(path)
    if status is None:
        return None
    try:
        return Settling(
            {int(family): uplinks['since_ns']
             for family, uplinks in status['uplinks'].items() if uplinks},
            int(status['unsettled']), frozenset(status['unsettled_keys']),
            bool(status['unwritten']))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _read_status(path: str) -> dict[str, Any] | None:
    """Return the first line of the answer, or None."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(ANSWER_TIMEOUT_S)
            client.connect(path)
            status = json.loads(_read_line(client))
    except (OSError, ValueError, RecursionError):
        return None
    return status if isinstance(status, dict) else None


def _read_line(client: socket.socket) -> bytes:
    """Read a line; the timeout is for all of it, however slow it is."""
    due = time.monotonic() + ANSWER_TIMEOUT_S
    line = b''
    while b'\n' not in line and len(line) < _LINE_BYTES_MAX:
        client.settimeout(max(0.001, due - time.monotonic()))
        part = client.recv(_LINE_BYTES_MAX - len(line))
        if not part:
            break
        line += part
    return line.partition(b'\n')[0]
