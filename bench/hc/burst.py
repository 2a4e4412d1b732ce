# SPDX-License-Identifier: Apache-2.0
"""Every target probed once, as fast as it goes, by each prober in turn."""

import statistics
import sys

from bench.hc import programs as targets
from bench.hc import space

# Probes under way at a time: what suits each prober.
WINDOW = 4096
WINDOW_GO = 1024


def run(programs, kind, count, rounds):
    """Rounds of all probers in turn; figures and ratios."""
    results = {}
    with space.mounted('tmpfs') as folder, programs.server(kind):
        checks = folder / 'checks.json'
        targets.write_checks(checks, kind, count)
        probers = {
            'checker': lambda: programs.burst(checks),
            'go': lambda: programs.go(kind, count, WINDOW_GO),
        }
        if kind == 'http':
            probers['c'] = lambda: programs.c(kind, count, WINDOW)
            probers['c_tuned'] = lambda: programs.c(kind, count, WINDOW,
                                                    tuned=True)
        for number in range(rounds):
            for name, prober in probers.items():
                found = prober()
                results.setdefault(name, []).append(found)
                print(f'  {kind} {number + 1}/{rounds} {name}: '
                      f'{found["wall_s"]:.2f} s, CPU {found["cpu_s"]:.2f} s, '
                      f'{found["failures"]} failed', file=sys.stderr)
    return _summary(results, count)


def _summary(results, count):
    summary = {'probes': count, 'probers': {
        name: {
            'wall_s': _both(runs, 'wall_s'),
            'cpu_s': _both(runs, 'cpu_s'),
            'process_cpu_s': _both(runs, 'process_cpu_s'),
            'cpu_us_per_probe': {
                how: 1e6 * value / count
                for how, value in _both(runs, 'cpu_s').items()},
            'failures': max(one['failures'] for one in runs),
            'rss_mb': max(one['max_rss_kb'] for one in runs) / 1024,
        } for name, runs in results.items()}}
    own = summary['probers']['checker']
    for name, other in summary['probers'].items():
        if name == 'checker':
            continue
        for figure in ('wall', 'cpu'):
            key = f'{figure}_s'
            summary[f'{figure}_ratio_{name}'] = (
                own[key]['minimum'] / other[key]['minimum'])
            summary[f'{figure}_ratio_{name}_median'] = (
                own[key]['median'] / other[key]['median'])
    summary['failures'] = own['failures']
    return summary


def _both(runs, key):
    values = [one[key] for one in runs]
    return {'minimum': min(values), 'median': statistics.median(values)}
