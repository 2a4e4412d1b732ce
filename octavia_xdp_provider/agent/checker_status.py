# SPDX-License-Identifier: Apache-2.0
"""What the health checker of this node says of itself.

Its socket answers with lines of JSON: the first is about the checker, the
rest, about single checks, is not read here.
"""

import json
import socket

# That it may take; it serves one client after the other.
ANSWER_TIMEOUT_S = 0.5
# The line is a few hundred bytes long.
_LINE_BYTES_MAX = 65536
_FIELDS = ('checks', 'up', 'down', 'unknown', 'conditions', 'panics',
           'withheld', 'stretch_percent', 'used_permille', 'late_p99_ms',
           'own_late_s')


def read(path):
    """The checker's figures by name; None if it does not answer.

    ``stretch_percent`` is the length of its intervals, 100 if it keeps up,
    ``late_p99_ms`` the lateness that 99 of 100 probes of the last second
    stayed below, ``own_late_s`` the time for which its threads did not run
    when they should have, since its start.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(ANSWER_TIMEOUT_S)
            client.connect(str(path))
            with client.makefile('rb') as lines:
                found = json.loads(lines.readline(_LINE_BYTES_MAX))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    return {name: found[name] for name in _FIELDS if name in found}
