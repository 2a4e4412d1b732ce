# SPDX-License-Identifier: Apache-2.0
"""Build clients in Go, and run them on the control host."""

import os
import pathlib
import shutil

from lab import cloud
from lab import paths
from lab import processes
from lab.clients import install

SOURCE = pathlib.Path(__file__).parent
# Searched before $PATH: Debian's Go is too old for the libraries.
PLACE = '/usr/local/go/bin'
RUN_S = 240


def compiler():
    """Return the path of Go, or None."""
    return shutil.which('go', path=f'{PLACE}:{os.environ.get("PATH", "")}')


def build(name):
    """Build a client with the versions in its go.mod, and return its path.

    :raises LabError: the build failed.
    """
    install.BUILT.mkdir(parents=True, exist_ok=True)
    target = install.BUILT / name
    install.run(compiler(), 'build', '-o', target, '.', cwd=SOURCE / name,
                GOTOOLCHAIN='local')
    return target


def run(lab, program, *arguments, user=cloud.TENANT):
    """Run a client as a user of the lab, and return its output."""
    environment = cloud.environment(lab, user)
    # gophercloud has one variable for the domains of user and project.
    environment['OS_DOMAIN_NAME'] = environment['OS_USER_DOMAIN_NAME']
    return processes.run(lab, paths.CONTROL, [program, *arguments],
                         env=environment, timeout=RUN_S).stdout
