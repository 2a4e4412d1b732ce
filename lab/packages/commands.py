# SPDX-License-Identifier: Apache-2.0
"""Directories of the packages, and commands with useful errors."""

import os
import subprocess

from lab import demo_steps
from lab import paths

REPORT = paths.BUILD / 'packages.json'
FOLDER = paths.BUILD / 'packages'
TIMEOUT = 1800


def run(*arguments, cwd=None, log=None, **environment):
    """Run a command and return its output.

    :param log: file for the whole output, even if the command fails.
    :raises demo_steps.StepFailed: it failed; has the end of its output.
    """
    words = [str(argument) for argument in arguments]
    try:
        done = subprocess.run(
            words, cwd=cwd, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=TIMEOUT, errors='replace',
            env={**os.environ, 'DEBIAN_FRONTEND': 'noninteractive',
                 'LC_ALL': 'C.UTF-8', **environment})
    except (OSError, subprocess.TimeoutExpired) as error:
        raise demo_steps.StepFailed(f'{words[0]}: {error}') from error
    if log is not None:
        log.write_text(done.stdout)
    if done.returncode:
        raise demo_steps.StepFailed(
            f'{" ".join(words)}: exit status {done.returncode}: '
            + done.stdout[-3000:].strip())
    return done.stdout
