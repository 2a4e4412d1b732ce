# SPDX-License-Identifier: Apache-2.0
"""Let members and LB nodes change together under live connections.

See bench/hitless/README.rst. Needs root and Linux 6.11.
"""

import argparse
import json
import pathlib
import resource
import sys

from bench.hitless import bed
from bench.hitless import report
from bench.hitless import runs
from bench.hitless import space
from bench.hitless import waves
from lab import paths

# Of files, beside the connections.
SPARE = 100
OUTPUT = paths.BUILD / 'bench' / 'hitless.json'


def parse():
    parser = argparse.ArgumentParser(prog='python -m bench.hitless',
                                     description=__doc__)
    parser.add_argument('--runs', nargs='+', choices=runs.KINDS,
                        default=list(runs.KINDS), metavar='NAME',
                        help=f'of {", ".join(runs.KINDS)} (default: all)')
    parser.add_argument('--waves', nargs='+', choices=waves.KINDS,
                        default=list(waves.KINDS), metavar='NAME',
                        help=f'of {", ".join(waves.KINDS)} (default: all)')
    parser.add_argument('--modes', nargs='+', choices=waves.MODES,
                        default=list(waves.MODES), metavar='MODE',
                        help='changes while slots are open, or closed '
                             '(default: both)')
    parser.add_argument('--connections', type=int, default=10000,
                        help='how many are live at a time (default: 10000)')
    parser.add_argument('--late', type=int, default=200,
                        help='how many more begin after each change (default: '
                             '200)')
    parser.add_argument('--per-second', type=float, default=4000.0,
                        help='exchanges of all connections together '
                             '(default: 4000)')
    parser.add_argument('--nodes', type=int, default=3,
                        help='LB nodes (default: 3)')
    parser.add_argument('--members', type=int, default=9,
                        help='members (default: 9)')
    parser.add_argument('--library', nargs='+', type=pathlib.Path,
                        default=[paths.LIBRARY], metavar='PATH',
                        help='that nodes have in turn, as they are upgraded '
                             '(default: the one of this checkout, alone)')
    parser.add_argument('--compare', action='store_true',
                        help='everything once more without second chances, '
                             'and without peers')
    parser.add_argument('--output', type=pathlib.Path, default=OUTPUT,
                        help='where the result goes, as JSON')
    arguments = parser.parse_args()
    # Ports of the client stay taken for a minute.
    for name, least, most in (
            ('connections', 1, 20000), ('late', 1, 2000), ('nodes', 2, 16),
            ('members', 6, 64), ('per_second', 1, 1000000)):
        if not least <= getattr(arguments, name) <= most:
            parser.error(f'--{name.replace("_", "-")}: from {least} to '
                         f'{most}')
    return arguments


def raise_file_limit(connections, late):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + waves.LATE_TIMES * late + SPARE
    if soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE,
                           (wanted, max(hard, wanted)))
    except (ValueError, OSError) as error:
        sys.exit(f'{connections} connections need {wanted} open files, the '
                 f'limit is {hard} and cannot be raised ({error}): use '
                 'ulimit -n, or fewer --connections')


def main():
    arguments = parse()
    space.enter('bench.hitless', sys.argv[1:])
    if not bed.has_hash_seed():
        sys.exit('This needs Linux 6.11: there is no sysctl '
                 'net.ipv4.fib_multipath_hash_seed, by which the router '
                 'spreads all connections anew')
    raise_file_limit(arguments.connections, arguments.late)
    options = runs.Options(
        arguments.connections, arguments.late, arguments.per_second,
        arguments.members, arguments.nodes, arguments.compare,
        tuple(arguments.waves), tuple(arguments.modes),
        tuple(arguments.library))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    made = []
    # Each as soon as there is one: all together take most of an hour.
    for name in arguments.runs:
        for entry in runs.KINDS[name](options):
            made.append(entry)
            arguments.output.write_text(
                json.dumps({'runs': made}, indent=2) + '\n')
    print(report.markdown(made))


if __name__ == '__main__':
    main()
