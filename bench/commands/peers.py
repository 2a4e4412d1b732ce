# SPDX-License-Identifier: Apache-2.0
"""Writes the tables for the documentation of peers."""

import argparse
import pathlib

from bench import commands

HELP = 'write the tables of the documentation of peers, from stored runs'

_CHECKOUT = pathlib.Path(__file__).parents[2]
_SUITE = 'peers'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('runs', nargs='*', metavar='RUN',
                        help='number, "latest~1", or the beginning of a '
                             'commit; of a case that several have, the '
                             f"last one's (latest of suite {_SUITE})")
    commands.store(parser, suite=False)
    parser.add_argument('--output', type=pathlib.Path, metavar='FILE',
                        default=_CHECKOUT / 'doc/source/contributor'
                        '/benchmarks/peers-tables.inc',
                        help='where to (what the page includes)')


def run(arguments: argparse.Namespace) -> int:
    from bench.report import peers
    from bench.results import atomic
    from bench.results import select
    from bench.results import store as stores
    store = stores.existing(arguments.store)
    if arguments.runs:
        chosen = [select.choose(store, text) for text in arguments.runs]
    else:
        chosen = [select.choose(store, 'latest', _SUITE)]
    atomic.write(arguments.output, peers.text_of(chosen))
    print(arguments.output)
    return 0
