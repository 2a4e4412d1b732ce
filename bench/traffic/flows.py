# SPDX-License-Identifier: Apache-2.0
"""Determines the flow of a packet from its number, like ``src/flow.h``."""

import numpy


def mix(values: numpy.ndarray) -> numpy.ndarray:
    """Permute 32-bit numbers (lowbias32, C. Wellons)."""
    values = values.astype(numpy.uint32)
    values ^= values >> numpy.uint32(16)
    values *= numpy.uint32(0x7feb352d)
    values ^= values >> numpy.uint32(15)
    values *= numpy.uint32(0x846ca68b)
    return values ^ values >> numpy.uint32(16)


def flows(numbers: numpy.ndarray, count: int, seed: int) -> numpy.ndarray:
    """Return flows of packets by number; count 0: a new flow for each."""
    if not count:
        return numbers.astype(numpy.uint32)
    mixed = mix(numbers.astype(numpy.uint32) ^ numpy.uint32(seed))
    return (mixed.astype(numpy.uint64) * numpy.uint64(count)
            >> numpy.uint64(32)).astype(numpy.uint32)
