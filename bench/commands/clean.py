# SPDX-License-Identifier: Apache-2.0
"""Removes what killed runs have left."""

import argparse

from bench.beds import runs

HELP = 'remove namespaces, processes and files of runs that were killed'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run(_arguments: argparse.Namespace) -> int:
    for name in runs.clean():
        print(f'removed: run {name}, which has ended')
    for name in runs.living():
        print(f'left alone: run {name}, which is alive')
    return 0
