# SPDX-License-Identifier: Apache-2.0
"""Test beds, traffic, software under test and results: one command.

Each command is a module of bench.commands; --help of one names its arguments.
"""

import argparse
import sys

from bench import commands
from bench import errors

PROGRAM = 'octavia-xdp-bench'
# The exit status that shells report for a process killed by SIGINT.
INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """Return a parser that knows the names of all commands."""
    top = argparse.ArgumentParser(prog=PROGRAM, description=__doc__)
    choices = top.add_subparsers(dest='command', required=True,
                                 metavar='COMMAND')
    for name, summary in commands.summaries().items():
        choices.add_parser(name, help=summary, add_help=False)
    return top


def main(words: list[str]) -> int:
    """Return the exit status: 1 if the command failed, 2 for bad arguments."""
    chosen, _rest = parser().parse_known_args(words[:1])
    command = commands.load(chosen.command)
    own = argparse.ArgumentParser(prog=f'{PROGRAM} {chosen.command}',
                                  description=command.HELP)
    command.add_arguments(own)
    try:
        return command.run(own.parse_args(words[1:]))
    except errors.BenchError as error:
        print(f'{PROGRAM}: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f'{PROGRAM}: interrupted', file=sys.stderr)
        return INTERRUPTED


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
