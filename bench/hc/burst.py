# SPDX-License-Identifier: Apache-2.0
"""Every target probed once, as fast as it goes, by a prober."""

from bench.hc import programs as targets
from bench.hc import space

# Probes under way at a time: what suits each prober.
WINDOW = 4096
WINDOW_GO = 1024


def run(asked):
    """What one burst takes."""
    kind, count = (asked.settings[name] for name in ('protocol', 'targets'))
    space.prepare()
    programs = targets.Programs()
    with space.mounted('tmpfs') as folder, programs.server(kind):
        found = _burst(programs, asked.software, kind, count, folder)
    return {
        'wall_s': found['wall_s'], 'cpu_s': found['cpu_s'],
        'process_cpu_s': found['process_cpu_s'],
        'cpu_us_per_probe': 1e6 * found['cpu_s'] / count,
        'failures': found['failures'],
        'rss_mb': found['max_rss_kb'] / 1024}, found


def _burst(programs, software, kind, count, folder):
    match software:
        case 'go':
            return programs.go(kind, count, WINDOW_GO)
        case 'c' | 'c_tuned':
            return programs.c(kind, count, WINDOW, software == 'c_tuned')
    checks = folder / 'checks.json'
    targets.write_checks(checks, kind, count)
    return programs.burst(checks)
