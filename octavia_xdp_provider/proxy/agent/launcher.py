# SPDX-License-Identifier: Apache-2.0
"""Whether the launcher runs."""

import os

NAME = 'octavia-xdp-proxy-launcher'
_LOCKS = '/proc/locks'


def problem(lock: str) -> str | None:
    """Return that no launcher runs, or None.

    The lock is not tried, so that a launcher that starts meanwhile gets it.

    :param lock: path of the file that a running launcher has locked.
    """
    try:
        status = os.stat(lock)
        with open(_LOCKS) as file:
            lines = file.read().splitlines()
    except OSError as error:
        return f'{NAME} does not run: {error.strerror}: {error.filename}'
    device = status.st_dev
    name = (f'{os.major(device):02x}:{os.minor(device):02x}:'
            f'{status.st_ino}')
    if any(line.split()[1] == 'FLOCK' and line.split()[-3] == name
           for line in lines):
        return None
    return (f'{NAME} does not run: HAProxy processes that die are not started '
            'again, and nothing changes')
