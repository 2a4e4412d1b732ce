# SPDX-License-Identifier: Apache-2.0
"""Mann and Whitney's rank sums for few values, exactly.

For rounds that were not measured in turn, so that none belongs to another.
Differences of all pairs are what the test counts; their median is the estimate
(Hodges and Lehmann, 1963).

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
    """Of each value after and each before; sorted."""
    return numpy.sort(numpy.subtract.outer(
        numpy.asarray(after, dtype=float),
        numpy.asarray(before, dtype=float)), axis=None)


def interval(before: Sequence[float], after: Sequence[float],
             confidence: float) -> sign_test.Interval:
    """Of how far the values after are above those before."""
    return sign_test.bounds(
        differences(before, after), _cumulative(len(before), len(after)),
        confidence)


def p_above(before: Sequence[float], after: Sequence[float],
            bound: float) -> float:
    """That values like these come of a shift that is not above the bound."""
    at_or_below = int((differences(before, after) <= bound).sum())
    return float(_cumulative(len(before), len(after))[at_or_below])


def p_below(before: Sequence[float], after: Sequence[float],
            bound: float) -> float:
    """That they come of a shift that is not below the bound."""
    return p_above(after, before, -bound)


@functools.lru_cache(maxsize=64)
def _cumulative(first: int, second: int) -> numpy.ndarray:
    """P(U <= index), of so many values on the two sides."""
    if not (first and second
            and first * second <= ROUNDS_MAX ** 2 // 2):
        raise errors.BenchError(
            f'{first} and {second} rounds: up to {ROUNDS_MAX // 2} are '
            f'compared with others')
    # Product of (1 - q^(second + i)) / (1 - q^i), whose coefficients count
    # the orders with each U; divided by their number as it grows.
    counts = numpy.zeros(first * second + 1)
    counts[0] = 1.0
    for index in range(1, first + 1):
        over = second + index
        counts[over:] -= counts[:max(len(counts) - over, 0)]
        for start in range(index):
            counts[start::index] = numpy.cumsum(counts[start::index])
        counts *= index / over
    return numpy.clip(numpy.cumsum(counts), 0, 1)
