# SPDX-License-Identifier: Apache-2.0
"""Writes the reports of a stored run."""

import argparse
import pathlib

from bench import commands

HELP = 'write report.html, report.md and suite.json of a stored run'

_CHECKOUT = pathlib.Path(__file__).parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('run', nargs='?', default='latest', metavar='RUN',
                        help='its number, "latest~1", or the beginning of a '
                             'commit (latest)')
    commands.store(parser)
    parser.add_argument('--output', type=pathlib.Path, metavar='FOLDER',
                        default=_CHECKOUT / 'build/bench',
                        help='where to (build/bench)')


def run(arguments: argparse.Namespace) -> int:
    from bench.report import files
    from bench.results import select
    from bench.results import store as stores
    store = stores.existing(arguments.store)
    chosen = select.choose(store, arguments.run, arguments.suite)
    for path in files.write(chosen, store, arguments.output):
        print(path)
    return 0
