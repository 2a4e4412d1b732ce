# SPDX-License-Identifier: Apache-2.0
"""Print the fault matrix of a lab as a Markdown table.

  python -m octavia_xdp_provider.tests.faults [--lab NAME]
      [--process NAME]… [--fault NAME]… [--step NAME]… [--seed N] [--list]

Each row is one fault of one process, while load balancers are created,
changed, deleted and failed over; each cell says "ok" or what was wrong
afterwards. The lab is brought up and ended unless it runs already. The same
goes to build/fault-matrix.json. The exit status is 1 if a cell is not ok.
"""

import argparse
import contextlib
import dataclasses
import json
import sys
import time
import warnings

from lab import deployment
from lab import paths
from lab import processes
from octavia_xdp_provider.tests.faults import matrix
from octavia_xdp_provider.tests.faults import strikes
from octavia_xdp_provider.tests.faults import victims

# The SDK announces its next major version with every call.
warnings.filterwarnings('ignore', module='openstack')
REPORT = paths.BUILD / 'fault-matrix.json'


def _arguments():
    parser = argparse.ArgumentParser(
        prog='fault-matrix', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--lab', default='faults')
    parser.add_argument('--process', action='append', metavar='NAME')
    parser.add_argument('--fault', action='append', metavar='NAME',
                        choices=list(strikes.STRIKES))
    parser.add_argument('--step', action='append', metavar='NAME',
                        choices=list(matrix.STEPS))
    parser.add_argument('--seed', type=int, default=int(time.time()),
                        help='of when faults come')
    parser.add_argument('--list', action='store_true',
                        help='print the cases, and do nothing')
    return parser.parse_args()


def _cases(arguments):
    known = victims.all_of()
    names = arguments.process or list(known)
    unknown = set(names) - set(known)
    if unknown:
        sys.exit(f'fault-matrix: no process {", ".join(sorted(unknown))}, '
                 f'but: {", ".join(known)}')
    faults = arguments.fault or list(strikes.STRIKES)
    return [(known[name], fault) for fault in faults for name in names
            if strikes.possible(known[name], fault)]


@contextlib.contextmanager
def _running(lab):
    if processes.all_of(lab):
        yield
        return
    deployment.up(lab)
    try:
        yield
    finally:
        deployment.down(lab)


def main():
    arguments = _arguments()
    lab = paths.Lab(arguments.lab)
    cases = _cases(arguments)
    if arguments.list:
        print('\n'.join(f'{victim.name}: {fault}' for victim, fault in cases))
        return 0
    with _running(lab):
        results = []
        print(f'Seed {arguments.seed}, {len(cases)} cases.\n')
        print(matrix.header(), flush=True)
        made = matrix.Matrix(lab, arguments.seed,
                             tuple(arguments.step or matrix.STEPS))
        try:
            for victim, fault in cases:
                results.append(made.run(victim, fault))
                print(matrix.line(results[-1]), flush=True)
                REPORT.write_text(json.dumps(
                    list(map(dataclasses.asdict, results)), indent=1))
        finally:
            made.close()
    bad = sum(not result.is_ok for result in results)
    print(f'\n{len(results) - bad} ok, {bad} not')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
