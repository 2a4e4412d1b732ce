# SPDX-License-Identifier: Apache-2.0
"""Removes what a killed run has left; started by runs.py."""

import sys

from bench.beds import runs

if __name__ == '__main__':
    left = runs.RunLab(sys.argv[1])
    # A run that ended normally has removed both.
    if left.directory.exists() or left.run_directory.exists():
        runs.remove(left)
