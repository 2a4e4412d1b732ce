# SPDX-License-Identifier: Apache-2.0
"""The environment of Horizon and Nova, by ``tools/setup horizon``."""

from lab import paths

VENV = paths.BUILD / 'horizon'


def program(name):
    """Return the path of a command.

    :raises paths.LabError: it is not installed.
    """
    path = VENV / 'bin' / name
    if not path.exists():
        raise paths.LabError(f'{path} is missing: tools/setup horizon '
                             'installs Horizon, Nova and a browser')
    return path
