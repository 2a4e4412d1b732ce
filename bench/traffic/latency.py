# SPDX-License-Identifier: Apache-2.0
"""Percentiles of a log-linear histogram, as ``src/receive.bpf.c`` fills it."""

import numpy

from bench.traffic import formats

SUB_BITS = formats.constants.LATENCY_SUB_BITS
PERCENTILES = (('p50', 0.5), ('p90', 0.9), ('p99', 0.99), ('p999', 0.999))


def upper(bucket: int) -> int:
    """The greatest latency of a bucket, ns: less than 1 % above the least."""
    size = 1 << SUB_BITS
    if bucket < 2 * size:
        return bucket
    shift = bucket // size - 1
    return ((bucket - shift * size + 1) << shift) - 1


def percentiles(counts: numpy.ndarray, greatest: int) -> dict[str, float]:
    """By name, ns; empty if nothing was counted.

    :param greatest: of all, exactly.
    """
    total = int(counts.sum())
    if not total:
        return {}
    cumulated = numpy.cumsum(counts)
    found = {}
    for name, share in PERCENTILES:
        rank = max(1, int(numpy.ceil(share * total)))
        bucket = int(numpy.searchsorted(cumulated, rank))
        found[name] = float(min(upper(bucket), greatest))
    found['max'] = float(greatest)
    return found
