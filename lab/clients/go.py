# SPDX-License-Identifier: Apache-2.0
"""Clients in Go: found, built, run on the control host."""

import os
import pathlib
import shutil

from lab import cloud
from lab import paths
from lab import processes
from lab.clients import install

SOURCE = pathlib.Path(__file__).parent
# Beside $PATH; Debian's own is older than what the libraries need.
PLACE = '/usr/local/go/bin'
RUN_S = 240


def compiler():
    """The path of Go, or None."""
    return shutil.which('go', path=f'{PLACE}:{os.environ.get("PATH", "")}')


def build(name):
    """Build a client, of the versions in its go.mod, and return its path.

    :raises LabError: it does not build.
    """
    install.BUILT.mkdir(parents=True, exist_ok=True)
    target = install.BUILT / name
    install.run(compiler(), 'build', '-o', target, '.', cwd=SOURCE / name,
                GOTOOLCHAIN='local')
    return target


def run(lab, program, *arguments, user=cloud.TENANT):
    """What a client prints, as a user of the lab."""
    environment = cloud.environment(lab, user)
    # gophercloud has one name for the domain of the user and the project's.
    environment['OS_DOMAIN_NAME'] = environment['OS_USER_DOMAIN_NAME']
    return processes.run(lab, paths.CONTROL, [program, *arguments],
                         env=environment, timeout=RUN_S).stdout
