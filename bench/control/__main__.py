# SPDX-License-Identifier: Apache-2.0
"""Measure the control plane: Octavia, controller and LB nodes together.

See bench/control/README.rst for what is inside of each figure.
"""

import argparse
import contextlib
import json
import pathlib
import signal
import sys
import warnings

from bench.control import burst
from bench.control import changes
from bench.control import cluster
from bench.control import fleet
from bench.control import node
from bench.control import report

ROOT = pathlib.Path(__file__).parents[2]
# In this order: what changes most comes last.
IN_LAB = ('idle_pass', 'api_to_map', 'create_active', 'burst', 'cold_node')
CASES = (*IN_LAB, 'fleet')


def parse():
    parser = argparse.ArgumentParser(prog='python -m bench.control',
                                     description=__doc__)
    parser.add_argument('--only', action='append', metavar='CASE',
                        choices=CASES, help='one case; may be given again: '
                        f'{", ".join(CASES)}')
    parser.add_argument('--load-balancers', type=int, default=1000,
                        help='on the two real nodes (1000)')
    parser.add_argument('--clones', action='store_true',
                        help='all but one of them are copies in the '
                             'databases, which saves a second for each')
    parser.add_argument('--members', type=int, default=20,
                        help='of each load balancer (20)')
    parser.add_argument('--rounds', type=int, default=100,
                        help='changes for api_to_map, a fifth as many '
                             'creations for create_active (100)')
    parser.add_argument('--burst', type=int, default=50,
                        help='load balancers at once (50)')
    parser.add_argument('--idle-seconds', type=int, default=65,
                        help='how long idle_pass looks (65)')
    parser.add_argument('--fleet-load-balancers', type=int, default=5000)
    parser.add_argument('--fleet-nodes', type=int, default=50)
    parser.add_argument('--fleet-rate', type=float, default=21.0,
                        help='changes a second that are asked for (21, so '
                             'that 20 are done, counted to the last one)')
    parser.add_argument('--fleet-seconds', type=int, default=90,
                        help='how long changes are made (90)')
    parser.add_argument('--lab', default='bench-control',
                        help='names of labs begin with it')
    parser.add_argument('--keep', action='store_true',
                        help='leave the lab of the two nodes running')
    parser.add_argument('--output', type=pathlib.Path,
                        default=ROOT / 'build/bench/control.json',
                        help='where the figures go, as JSON')
    arguments = parser.parse_args()
    for name in ('load_balancers', 'members', 'rounds', 'burst',
                 'idle_seconds', 'fleet_load_balancers', 'fleet_nodes',
                 'fleet_seconds'):
        if getattr(arguments, name) < 1:
            parser.error(f'--{name.replace("_", "-")}: at least 1')
    if arguments.fleet_nodes > fleet.NODES_MAX:
        parser.error(f'--fleet-nodes: at most {fleet.NODES_MAX}')
    return arguments


def in_lab(arguments, wanted, results):
    """The cases on two real nodes."""
    here = cluster.Cluster(arguments.lab, arguments.load_balancers,
                           arguments.members, arguments.clones)
    cases = {
        'idle_pass': lambda: node.idle(here, arguments.idle_seconds),
        'api_to_map': lambda: changes.api_to_map(here, arguments.rounds),
        'create_active': lambda: changes.create_active(
            here, max(1, arguments.rounds // 5)),
        'burst': lambda: burst.run(here, arguments.burst),
        'cold_node': lambda: node.cold(here),
    }
    with here.running(arguments.keep):
        for case in wanted:
            results[case] = cases[case]()
            print(case, *results[case], flush=True)


def main():
    arguments = parse()
    warnings.filterwarnings('ignore', module='openstack')
    # What was started is ended also when we are asked to end.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wanted = [case for case in CASES
              if not arguments.only or case in arguments.only]
    results = {}
    with contextlib.redirect_stdout(sys.stderr):
        if some := [case for case in wanted if case in IN_LAB]:
            in_lab(arguments, some, results)
        if 'fleet' in wanted:
            results['fleet'] = fleet.run(arguments)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(
        json.dumps(report.figures(results), indent=2) + '\n')
    print(report.markdown(results))


if __name__ == '__main__':
    main()
