# SPDX-License-Identifier: Apache-2.0
"""Heat's engine, in a virtual environment of its own."""

import json
import pathlib

from lab import cloud
from lab import paths
from lab import processes
from lab.clients import install

SOURCE = pathlib.Path(__file__).parent
TEMPLATE = SOURCE / 'web.yaml'
PLACE = install.BUILT / 'heat'
# A stack of a load balancer, which takes one change at a time.
RUN_S = 300


def make():
    """Install what requirements.txt locks.

    :raises LabError: it cannot be installed.
    """
    install.python(PLACE, SOURCE / 'requirements.txt')


def run(lab, database, *words, user=cloud.TENANT):
    """What stack.py prints, read."""
    return json.loads(processes.run(
        lab, paths.CONTROL,
        [PLACE / 'bin/python', SOURCE / 'stack.py', database, *words],
        env=cloud.environment(lab, user), timeout=RUN_S).stdout)
