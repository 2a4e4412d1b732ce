# SPDX-License-Identifier: Apache-2.0
"""Percentiles of a log-linear histogram, as ``src/receive.bpf.c`` fills it."""

import numpy

from bench.traffic import formats

SUB_BITS = formats.constants.LATENCY_SUB_BITS
PERCENTILES = (('p50', 0.5), ('p90', 0.9), ('p99', 0.99), ('p999', 0.999))


def upper(bucket: int) -> int:
    """Return a bucket's highest latency, ns, at most 1 % above its lowest."""
    size = 1 << SUB_BITS
    if bucket < 2 * size:
        return bucket
    shift = bucket // size - 1
    return ((bucket - shift * size + 1) << shift) - 1


def percentiles(counts: numpy.ndarray, greatest: int) -> dict[str, float]:
    """Return percentiles in ns by name; empty if nothing was counted.

    :param greatest: the exact maximum.
    """
    total = int(counts.sum())
    if not total:
        return {}
    cumulated = numpy.cumsum(counts)
    values = {}
    for name, share in PERCENTILES:
        rank = max(1, int(numpy.ceil(share * total)))
        bucket = int(numpy.searchsorted(cumulated, rank))
        values[name] = float(min(upper(bucket), greatest))
    values['max'] = float(greatest)
    return values
