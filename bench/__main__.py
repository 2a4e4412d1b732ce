# SPDX-License-Identifier: Apache-2.0
"""Test beds, traffic, software under test and results: one command.

--help of a command names its arguments.
"""

import argparse
import sys

from bench import commands
from bench import errors

PROGRAM = 'octavia-xdp-bench'


def main(words: list[str]) -> int:
    """Return the exit status: 1 if the command failed, 2 for bad arguments."""
    top = argparse.ArgumentParser(prog=PROGRAM, description=__doc__)
    commands.add_all(top.add_subparsers(dest='command', required=True,
                                        metavar='COMMAND'))
    arguments = top.parse_args(words)
    return errors.exit_status(PROGRAM, lambda: arguments.run(arguments))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
