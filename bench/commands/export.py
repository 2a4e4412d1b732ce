# SPDX-License-Identifier: Apache-2.0
"""Writes stored runs as JSON, for another store."""

import argparse
import pathlib
import sys

from bench import commands

HELP = 'write stored runs as JSON'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('runs', nargs='*', metavar='RUN',
                        help='number, "latest~1", or the beginning of a '
                             'commit; without one all runs')
    commands.store(parser)
    parser.add_argument('--output', type=pathlib.Path, metavar='FILE',
                        help='where to (standard output)')


def run(arguments: argparse.Namespace) -> int:
    from bench.results import atomic
    from bench.results import document
    from bench.results import select
    from bench.results import store as stores
    store = stores.existing(arguments.store)
    if arguments.runs:
        chosen = [select.choose(store, text, arguments.suite)
                  for text in arguments.runs]
    else:
        chosen = select.every(store, arguments.suite)
    text = document.write(chosen)
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        atomic.write(arguments.output, text)
        print(f'{arguments.output}: {len(chosen)} runs')
    return 0
