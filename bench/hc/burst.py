# SPDX-License-Identifier: Apache-2.0
"""Probes every target once, as fast as possible."""

from bench.hc import programs as targets
from bench.hc import space

# Concurrent probes, as suits each prober.
WINDOW = 4096
WINDOW_GO = 1024


def run(asked):
    """Return the costs of a burst."""
    kind, count = (asked.settings[name] for name in ('protocol', 'targets'))
    space.prepare()
    programs = targets.Programs()
    with space.mounted('tmpfs') as folder, programs.server(kind):
        costs = _burst(programs, asked.software, kind, count, folder)
    return {
        'wall_s': costs['wall_s'], 'cpu_s': costs['cpu_s'],
        'process_cpu_s': costs['process_cpu_s'],
        'cpu_us_per_probe': 1e6 * costs['cpu_s'] / count,
        'failures': costs['failures'],
        'rss_mb': costs['max_rss_kb'] / 1024}, costs


def _burst(programs, software, kind, count, folder):
    match software:
        case 'go':
            return programs.go(kind, count, WINDOW_GO)
        case 'c' | 'c_tuned':
            return programs.c(kind, count, WINDOW, software == 'c_tuned')
    checks = folder / 'checks.json'
    targets.write_checks(checks, kind, count)
    return programs.burst(checks)
