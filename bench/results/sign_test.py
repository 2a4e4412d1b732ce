# SPDX-License-Identifier: Apache-2.0
"""Exact intervals and tests of a median, by order statistics.

They hold for independent values of any distribution, skewed or with outliers:
up to half of the values may be arbitrary. With few values they state their
actual confidence, whereas a bootstrap of few values is narrower than it
claims. Signed ranks (Wilcoxon) would give intervals that are a sixth narrower
for quiet rounds, but wide ones as soon as a neighbour slows down single
rounds.

Method: Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, 3rd
edition, 3.4 to 3.6.
"""

from collections.abc import Sequence
import dataclasses

import numpy
import scipy.stats

from bench import errors


@dataclasses.dataclass(frozen=True)
class Interval:
    """An estimate with its bounds.

    :ivar confidence: probability that the bounds enclose the true value; with
        too few values below the requested one.
    """

    estimate: float
    low: float
    high: float
    confidence: float


def interval(values: Sequence[float], confidence: float) -> Interval:
    """Return the interval of the median; below six values, their range.

    :raises BenchError: there are no values.
    """
    if not values:
        raise errors.BenchError('no rounds, so no median')
    count = len(values)
    return bounds(numpy.sort(values),
                  scipy.stats.binom.cdf(numpy.arange(count), count, 0.5),
                  confidence)


def bounds(ordered: numpy.ndarray, cumulative: numpy.ndarray,
           confidence: float) -> Interval:
    """Return the interval that excludes as many values as allowed.

    :param ordered: values whose median is the estimate.
    :param cumulative: by `index`, the probability that at most that many
        ordered values lie on one side of the true value.
    """
    outside = (1 - confidence) / 2
    # With too few values, use the extremes whatever their confidence.
    index = max(int(numpy.searchsorted(cumulative, outside, 'right')) - 1, 0)
    return Interval(float(numpy.median(ordered)), float(ordered[index]),
                    float(ordered[-1 - index]),
                    max(0.0, 1 - 2 * float(cumulative[index])))


def p_above(values: Sequence[float], bound: float) -> float:
    """Return the probability of such values if their median is at most bound.

    Values equal to the bound count as not above it.
    """
    at_or_below = sum(value <= bound for value in values)
    return float(scipy.stats.binom.cdf(at_or_below, len(values), 0.5))


def p_below(values: Sequence[float], bound: float) -> float:
    """Return the probability of such values if the median is >= bound."""
    return p_above([-value for value in values], -bound)
