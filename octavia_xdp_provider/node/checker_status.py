# SPDX-License-Identifier: Apache-2.0
"""What the health checker of this node says of itself.

Its socket answers with lines of JSON: the first is about the checker, the
rest, about single checks, is not read here.
"""

import json
import socket
import time
import typing

# That it may take; it serves one client after the other.
ANSWER_TIMEOUT_S = 0.5
# The line is a few hundred bytes long, and 20 for each of 1,000 checks.
_LINE_BYTES_MAX = 65536
_FIGURE_MAX = 1 << 53
_FIELDS = ('checks', 'up', 'down', 'unknown', 'conditions', 'panics',
           'withheld', 'stretch_percent', 'used_permille', 'late_p99_ms',
           'own_late_s')


class Settling(typing.NamedTuple):
    """Which checks have not been probed since uplinks work again, or are in
    doubt.

    ``families``: family → since_ns of the uplinks, as the checker knows it;
    ``number``: of such checks; ``keys``: their names, not all of them if
    there are many; ``unwritten``: it has changes that are not in the queue.
    """

    families: dict
    number: int
    keys: frozenset
    unwritten: bool


def read(path):
    """The checker's figures by name; None if it does not answer.

    ``stretch_percent`` is the length of its intervals, 100 if it keeps up,
    ``late_p99_ms`` the lateness that 99 of 100 probes of the last second
    stayed below, ``own_late_s`` the time for which its threads did not run
    when they should have, since its start.
    """
    found = _ask(path)
    if found is None:
        return None
    return {name: found[name] for name in _FIELDS
            if _is_figure(found.get(name))}


def _is_figure(value):
    return type(value) in (int, float) and 0 <= value < _FIGURE_MAX


def settling(path):
    """Settling; None if the checker does not answer, or not all of it."""
    found = _ask(path)
    if found is None:
        return None
    try:
        return Settling(
            {int(family): known['since_ns']
             for family, known in found['uplinks'].items() if known},
            int(found['unsettled']), frozenset(found['unsettled_keys']),
            bool(found['unwritten']))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _ask(path):
    """The first line, an object; None if there is none."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(ANSWER_TIMEOUT_S)
            client.connect(str(path))
            found = json.loads(_read_line(client))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _read_line(client):
    """Within the time, however slowly it comes."""
    due = time.monotonic() + ANSWER_TIMEOUT_S
    line = b''
    while b'\n' not in line and len(line) < _LINE_BYTES_MAX:
        client.settimeout(max(0.001, due - time.monotonic()))
        part = client.recv(_LINE_BYTES_MAX - len(line))
        if not part:
            break
        line += part
    return line.partition(b'\n')[0]
