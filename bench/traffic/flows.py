# SPDX-License-Identifier: Apache-2.0
"""Which flow and destination a packet has, by its number alone.

The same as in ``src/flow.h``.
"""

import numpy


def mix(values: numpy.ndarray) -> numpy.ndarray:
    """Of 32-bit numbers: no two have the same (lowbias32, C. Wellons)."""
    values = values.astype(numpy.uint32)
    values ^= values >> numpy.uint32(16)
    values *= numpy.uint32(0x7feb352d)
    values ^= values >> numpy.uint32(15)
    values *= numpy.uint32(0x846ca68b)
    return values ^ values >> numpy.uint32(16)


def flows(numbers: numpy.ndarray, count: int, seed: int) -> numpy.ndarray:
    """Of packets with these numbers; count 0: each packet another one."""
    if not count:
        return numbers.astype(numpy.uint32)
    mixed = mix(numbers.astype(numpy.uint32) ^ numpy.uint32(seed))
    return (mixed.astype(numpy.uint64) * numpy.uint64(count)
            >> numpy.uint64(32)).astype(numpy.uint32)
