# SPDX-License-Identifier: Apache-2.0
"""Test beds, traffic, software under test and results: one command.

--help of a command names its arguments.
"""

import argparse
import sys

from bench import commands
from bench import errors

PROGRAM = 'octavia-xdp-bench'
# The exit status that shells report for a process killed by SIGINT.
INTERRUPTED = 130


def main(words: list[str]) -> int:
    """Return the exit status: 1 if the command failed, 2 for bad arguments."""
    top = argparse.ArgumentParser(prog=PROGRAM, description=__doc__)
    commands.add_all(top.add_subparsers(dest='command', required=True,
                                        metavar='COMMAND'))
    arguments = top.parse_args(words)
    try:
        return arguments.run(arguments) or 0
    except errors.BenchError as error:
        print(f'{PROGRAM}: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f'{PROGRAM}: interrupted', file=sys.stderr)
        return INTERRUPTED


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
