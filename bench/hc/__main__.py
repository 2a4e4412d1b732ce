# SPDX-License-Identifier: Apache-2.0
"""Measure the health checker and what takes in its results.

Every prober in one run and in turn, in a network namespace of our own; see
bench/hc/README.rst.
"""

import argparse
import json
import pathlib
import resource
import sys

from bench.hc import burst
from bench.hc import programs
from bench.hc import report
from bench.hc import space
from bench.hc import steady
from bench.hc import table

ROOT = pathlib.Path(__file__).parents[2]


def parse():
    parser = argparse.ArgumentParser(prog='python -m bench.hc',
                                     description=__doc__)
    parser.add_argument('--rounds', type=int, default=5,
                        help='rounds of each burst')
    parser.add_argument('--seconds', type=int, default=20,
                        help='how long each steady state is measured')
    parser.add_argument('--only', action='append', metavar='KEY',
                        help='one case, by its key in the result; may be '
                             'given again')
    parser.add_argument('--programs', type=pathlib.Path,
                        default=ROOT / 'build/bench/hc',
                        help='directory of the built programs')
    parser.add_argument('--checker', type=pathlib.Path,
                        default=ROOT / 'hc-agent/target/release/'
                        'octavia-xdp-hc', help='the health checker')
    parser.add_argument('--library', type=pathlib.Path,
                        default=ROOT / 'datapath/build/liboctavia_xdp.so',
                        help='the datapath library')
    parser.add_argument('--output', type=pathlib.Path,
                        default=ROOT / 'build/bench/hc.json',
                        help='where the figures go, as JSON')
    return parser.parse_args()


def main():
    arguments = parse()
    space.enter('bench.hc', sys.argv[1:])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    tools = programs.Programs(arguments.programs, arguments.checker)
    rounds, seconds = arguments.rounds, arguments.seconds
    cases = {
        'burst_http_28000': lambda: burst.run(tools, 'http', 28000, rounds),
        'burst_https_8000': lambda: burst.run(tools, 'https', 8000, rounds),
        'steady_tcp_140000': lambda: steady.run(tools, 'tcp', 140000, 5,
                                                seconds),
        'steady_http_140000': lambda: steady.run(tools, 'http', 140000, 10,
                                                 seconds),
        'result_to_table': lambda: table.run(str(arguments.library),
                                             20 * rounds, rounds),
    }
    wanted = arguments.only or list(cases)
    figures = {}
    for key in wanted:
        print(key, file=sys.stderr)
        figures[key] = cases[key]()
    figures['memory'] = _memory(figures)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(figures, indent=2) + '\n')
    print(report.markdown(figures))


def _memory(figures):
    """Greatest resident memory of each process, in MB."""
    found = {}
    for key, one in figures.items():
        if 'probers' in one:
            found[key] = {name: prober['rss_mb']
                          for name, prober in one['probers'].items()}
        else:
            found[key] = one['rss_mb']
    return found


if __name__ == '__main__':
    main()
