# SPDX-License-Identifier: Apache-2.0
"""Runs a suite or scenarios, and writes the reports."""

import argparse
import pathlib

from bench import commands

HELP = 'run a suite or scenarios on test beds, and report'

_CHECKOUT = pathlib.Path(__file__).parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument('--suite', default='default', metavar='NAME',
                      help='by its name, or the path of its file (default)')
    what.add_argument('--scenario', action='append', metavar='NAME',
                      help='in place of a suite; may be given again')
    parser.add_argument('--only', action='append', metavar='CASE',
                        help='cases by their name, which may have * and ?; '
                             'may be given again')
    parser.add_argument('--rounds', type=_positive, metavar='N',
                        help='in place of what the declarations say')
    parser.add_argument('--set', action='append', metavar='KEY=VALUE',
                        default=[],
                        help='of all scenarios, as measure.seconds=5; may be '
                             'given again')
    parser.add_argument('--bed', metavar='NAME',
                        help='in place of those of the scenarios; or the '
                             'path of a file')
    parser.add_argument('--provider', metavar='NAME',
                        help='of beds, in place of the declared one: '
                             'namespaces, guest, ssh')
    parser.add_argument('--plan', action='store_true',
                        help='print what would run and how long it may take')
    commands.store(parser, suite=False)
    parser.add_argument('--output', type=pathlib.Path, metavar='FOLDER',
                        default=_CHECKOUT / 'build/bench',
                        help='of suite.json and the reports (build/bench)')


def run(arguments: argparse.Namespace) -> int:
    from bench.engine import command
    return command.run(arguments)


def _positive(text):
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(
            f'"{text}" is no number of rounds: it has to be 1 or more')
    return int(text)
