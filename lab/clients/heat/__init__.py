# SPDX-License-Identifier: Apache-2.0
"""Heat's engine, in its own virtual environment."""

import json
import pathlib

from lab import cloud
from lab import paths
from lab import processes
from lab.clients import install

SOURCE = pathlib.Path(__file__).parent
TEMPLATE = SOURCE / 'web.yaml'
PLACE = install.BUILT / 'heat'
# A stack with a load balancer is slow: it allows one change at a time.
RUN_S = 300


def make():
    """Install the packages of requirements.txt.

    :raises LabError: they cannot be installed.
    """
    install.python(PLACE, SOURCE / 'requirements.txt')


def run(lab, database, *words, user=cloud.TENANT):
    """Run stack.py, and return its parsed output."""
    return json.loads(processes.run(
        lab, paths.CONTROL,
        [PLACE / 'bin/python', SOURCE / 'stack.py', database, *words],
        env=cloud.environment(lab, user), timeout=RUN_S).stdout)
