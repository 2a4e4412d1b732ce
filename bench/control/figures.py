# SPDX-License-Identifier: Apache-2.0
"""Percentiles of samples, and resource usage of processes."""

import math
import pathlib

TICKS_PER_SECOND = 100  # USER_HZ, the same on all machines with Linux
PAGE_BYTES = 4096


def percentile(samples, percent):
    """Return the percentile by nearest rank, an actual sample."""
    ordered = sorted(samples)
    rank = max(1, math.ceil(len(ordered) * percent / 100))
    return ordered[rank - 1]


def cpu_s(pid):
    """Return the CPU seconds that a process has used, with all threads."""
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(
        ')')[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def rss_mb(pid):
    """Return the resident memory of a process, MB."""
    fields = pathlib.Path(f'/proc/{pid}/statm').read_text().split()
    return int(fields[1]) * PAGE_BYTES / 1e6


def children(pid):
    """Return a process and its descendants, parents before children."""
    pids = [pid]
    for path in pathlib.Path(f'/proc/{pid}/task').glob('*/children'):
        for child in path.read_text().split():
            pids += children(int(child))
    return pids
