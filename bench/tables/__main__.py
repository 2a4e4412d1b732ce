# SPDX-License-Identifier: Apache-2.0
"""Measure how long changes of members take to be in the tables.

See bench/tables/README.rst for what is inside of each time.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from bench.hc import space
from bench.tables import report
from bench.tables import updates

ROOT = pathlib.Path(__file__).parents[2]


def parse():
    parser = argparse.ArgumentParser(prog='python -m bench.tables',
                                     description=__doc__)
    parser.add_argument('--rounds', type=int, default=7,
                        help='how often each case is measured, up to 100')
    parser.add_argument('--library', type=pathlib.Path,
                        default=ROOT / 'datapath/build/liboctavia_xdp.so',
                        help='the datapath library')
    parser.add_argument('--program', type=pathlib.Path,
                        default=ROOT / 'datapath/build/bench/tables',
                        help='what measures the library and the baseline')
    parser.add_argument('--output', type=pathlib.Path,
                        default=ROOT / 'build/bench/tables.json',
                        help='where the figures go, as JSON')
    arguments = parser.parse_args()
    if not 1 <= arguments.rounds <= 100:
        parser.error('--rounds: from 1 to 100')
    return arguments


def in_library(program, rounds):
    """All samples of the library alone and of the baseline."""
    with tempfile.NamedTemporaryFile(suffix='.json') as file:
        subprocess.run([program, file.name, str(rounds)], check=True,
                       stdout=subprocess.DEVNULL)
        return json.load(file)


def main():
    arguments = parse()
    space.enter('bench.tables', sys.argv[1:])
    library = in_library(arguments.program, arguments.rounds)
    through_handler = updates.run(arguments.library, arguments.rounds)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(
        json.dumps(report.figures(library, through_handler), indent=2) + '\n')
    print(report.markdown(library, through_handler))


if __name__ == '__main__':
    main()
