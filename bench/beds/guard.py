# SPDX-License-Identifier: Apache-2.0
"""Removes what a run has left that was killed; runs.py starts it."""

import sys

from bench.beds import runs

if __name__ == '__main__':
    left = runs.RunLab(sys.argv[1])
    # Nothing to do if the run came to its end.
    if left.directory.exists() or left.run_directory.exists():
        runs.remove(left)
