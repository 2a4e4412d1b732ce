# SPDX-License-Identifier: Apache-2.0
"""Compares two runs, or runs two commits in turn and compares them."""

import argparse
import pathlib

from bench import commands

HELP = "say whether two runs or two commits differ: changed, same, can't tell"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name in 'before', 'after':
        parser.add_argument(
            name, help='a run: its number, "latest", "latest~1", or the '
                       'beginning of a commit; with --rounds a git ref')
    parser.add_argument('--rounds', type=_rounds, metavar='N',
                        help='run both commits in turn, this often')
    parser.add_argument('--suite', metavar='NAME',
                        help='of the runs; with --rounds what to run '
                             '(datapath)')
    for name, value in ('--only', 'CASE'), ('--set', 'KEY=VALUE'):
        parser.add_argument(name, action='append', default=[], metavar=value,
                            help='with --rounds: as for "run"')
    parser.add_argument('--threshold', type=_percent, metavar='PERCENT',
                        help='the smallest difference of interest (3)')
    commands.store(parser, suite=False)
    parser.add_argument('--html', type=pathlib.Path, metavar='FILE',
                        help='write a report')
    parser.add_argument('--markdown', type=pathlib.Path, metavar='FILE',
                        help='write what a pull request gets ("post")')
    parser.add_argument('--fail-on', choices=('worse', 'changed'),
                        help='exit with status 3 in this case')


def run(arguments: argparse.Namespace) -> int:
    from bench.compare import command
    return command.run(arguments)


def _rounds(text):
    number = int(text)
    if not 1 <= number <= 1000:
        raise argparse.ArgumentTypeError('from 1 to 1000')
    return number


def _percent(text):
    number = float(text)
    if not 0 < number <= 100:
        raise argparse.ArgumentTypeError('above 0, up to 100')
    return number / 100
