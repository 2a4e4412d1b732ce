# SPDX-License-Identifier: Apache-2.0
"""Adds the runs in files that "export" wrote."""

import argparse
import pathlib

from bench import commands

HELP = 'add runs that "export" wrote to the store'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('files', nargs='+', type=pathlib.Path, metavar='FILE',
                        help='all of their runs are added, or none')
    commands.store(parser, suite=False)


def run(arguments: argparse.Namespace) -> int:
    from bench import errors
    from bench.results import document
    from bench.results import store as stores
    runs = []
    for path in arguments.files:
        try:
            text = path.read_text(encoding='utf-8')
        except (OSError, UnicodeDecodeError) as error:
            raise errors.BenchError(f'{path}: {error}') from error
        runs += document.read(text, str(path))
    store = stores.Store(arguments.store or stores.DEFAULT)
    added = store.add(runs)
    print(f'{len(added)} runs added, {len(runs) - len(added)} were there')
    for each in added:
        print(f'run {each.id}: {each.suite} of {each.commit[:12]}')
    return 0
