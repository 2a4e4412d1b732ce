# SPDX-License-Identifier: Apache-2.0
"""Build clients outside the lab's namespaces, in the user's environment.

Missing packages are downloaded from package indexes. The user's environment
has their addresses, proxies and certificates, unlike the lab's processes.
"""

import os
import subprocess

from lab import paths

BUILT = paths.BUILD / 'clients'
TIMEOUT_S = 600


def run(*words, cwd=None, **environment):
    """Run a command, and return its output.

    :raises LabError: it failed or takes too long; has its error output.
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
    """Create a virtual environment with the packages of a lock file.

    :raises LabError: it cannot be created.
    """
    uv = paths.CHECKOUT / 'tools/uv'
    run(uv, 'venv', '--clear', '--python',
        run(paths.CHECKOUT / 'tools/python'), place)
    run(uv, 'pip', 'install', '--python', place / 'bin/python',
        '--requirement', requirements)
