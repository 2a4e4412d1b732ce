# SPDX-License-Identifier: Apache-2.0
"""Clients are built here, with what the user has set for that.

Outside of the lab's namespaces, and unlike processes of the lab in the user's
own environment: what is not there yet comes from package indexes, whose
addresses, proxies and certificates it names.
"""

import os
import subprocess

from lab import paths

BUILT = paths.BUILD / 'clients'
TIMEOUT_S = 600


def run(*words, cwd=None, **environment):
    """What a command prints.

    :raises LabError: it failed, with what it said, or takes too long.
    """
    words = [str(word) for word in words]
    try:
        done = subprocess.run(
            words, cwd=cwd, env={**os.environ, **environment}, text=True,
            capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise paths.LabError(f'{words[0]}: {error}') from error
    if done.returncode:
        raise paths.LabError(f'{" ".join(words)} failed '
                             f'({done.returncode}):\n{done.stderr[-4000:]}')
    return done.stdout.strip()


def python(place, requirements):
    """Make a virtual environment with what a file locks.

    :raises LabError: it cannot be made.
    """
    uv = paths.CHECKOUT / 'tools/uv'
    run(uv, 'venv', '--clear', '--python',
        run(paths.CHECKOUT / 'tools/python'), place)
    run(uv, 'pip', 'install', '--python', place / 'bin/python',
        '--requirement', requirements)
