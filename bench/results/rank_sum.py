# SPDX-License-Identifier: Apache-2.0
"""Exact rank sums of Mann and Whitney, for few values.

For rounds that were not measured in turn and thus are unpaired. The test
counts differences of all pairs; their median is the estimate (Hodges and
Lehmann, 1963).

Method: Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, 3rd
edition, 4.1 to 4.3.
"""

from collections.abc import Sequence
import functools

import numpy

from bench import errors
from bench.results import sign_test

# Time and memory grow with the product of both sides.
ROUNDS_MAX = 1000


def differences(before: Sequence[float],
                after: Sequence[float]) -> numpy.ndarray:
    """Return the sorted differences of each value after and each before."""
    return numpy.sort(numpy.subtract.outer(
        numpy.asarray(after, dtype=float),
        numpy.asarray(before, dtype=float)), axis=None)


def interval(before: Sequence[float], after: Sequence[float],
             confidence: float) -> sign_test.Interval:
    """Return the interval of the shift from values before to those after."""
    return sign_test.bounds(
        differences(before, after), _cumulative(len(before), len(after)),
        confidence)


def p_above(before: Sequence[float], after: Sequence[float],
            bound: float) -> float:
    """Return the probability of such values if the shift is at most bound."""
    at_or_below = int((differences(before, after) <= bound).sum())
    return float(_cumulative(len(before), len(after))[at_or_below])


def p_below(before: Sequence[float], after: Sequence[float],
            bound: float) -> float:
    """Return the probability of such values if the shift is at least bound."""
    return p_above(after, before, -bound)


@functools.lru_cache(maxsize=64)
def _cumulative(first: int, second: int) -> numpy.ndarray:
    """Return P(U <= index) for these numbers of values."""
    if not (first and second
            and first * second <= ROUNDS_MAX ** 2 // 2):
        raise errors.BenchError(
            f'{first} and {second} rounds: up to {ROUNDS_MAX // 2} are '
            f'compared with others')
    # The coefficients of the product of (1 - q^(second + i)) / (1 - q^i) count
    # the orders with each U; divide by the number of orders as it grows.
    counts = numpy.zeros(first * second + 1)
    counts[0] = 1.0
    for index in range(1, first + 1):
        over = second + index
        counts[over:] -= counts[:max(len(counts) - over, 0)]
        for start in range(index):
            counts[start::index] = numpy.cumsum(counts[start::index])
        counts *= index / over
    return numpy.clip(numpy.cumsum(counts), 0, 1)
