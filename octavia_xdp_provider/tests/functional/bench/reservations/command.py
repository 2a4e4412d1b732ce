# SPDX-License-Identifier: Apache-2.0
"""The command "bed", as a process of its own, on a folder of a test's."""

import pathlib
import subprocess
import sys

import bench
from octavia_xdp_provider.tests.unit.bench.reservations import samples

CHECKOUT = pathlib.Path(bench.__file__).parents[1]


class Command:
    """Of a folder with the inventory of the samples."""

    def __init__(self, folder, text=samples.TEXT):
        self.folder = folder
        samples.write(folder, text)

    def words(self, *words, owner='alice'):
        """The whole command."""
        return [sys.executable, '-m', 'bench', 'bed', '--folder',
                str(self.folder), '--owner', owner, *words]

    def start(self, *words, owner='alice', **more):
        """Its process."""
        return subprocess.Popen(
            self.words(*words, owner=owner), cwd=CHECKOUT, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, **more)

    def run(self, *words, owner='alice'):
        """(exit status, what it printed)."""
        process = self.start(*words, owner=owner)
        said, _ = process.communicate(timeout=120)
        return process.returncode, said
