# SPDX-License-Identifier: Apache-2.0
"""Percentiles of samples, and processor time of processes."""

import numpy
import psutil


def percentile(samples, percent):
    """Return the percentile by nearest rank, an actual sample."""
    return float(numpy.percentile(samples, percent, method='inverted_cdf'))


def cpu_s(pid):
    """Return the CPU seconds that a process has used, with all threads."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
