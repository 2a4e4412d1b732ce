# SPDX-License-Identifier: Apache-2.0
"""Samples, and what processes have used."""

import math
import pathlib

TICKS_PER_SECOND = 100  # USER_HZ, the same on all machines with Linux
PAGE_BYTES = 4096


def percentile(samples, percent):
    """By nearest rank: a sample that was really seen."""
    ordered = sorted(samples)
    rank = max(1, math.ceil(len(ordered) * percent / 100))
    return ordered[rank - 1]


def cpu_s(pid):
    """Seconds of CPU that a process has used, with all its threads."""
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(
        ')')[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def rss_mb(pid):
    """Resident memory of a process."""
    fields = pathlib.Path(f'/proc/{pid}/statm').read_text().split()
    return int(fields[1]) * PAGE_BYTES / 1e6


def children(pid):
    """Processes below this one, itself among them, oldest first."""
    found = [pid]
    for path in pathlib.Path(f'/proc/{pid}/task').glob('*/children'):
        for child in path.read_text().split():
            found += children(int(child))
    return found
