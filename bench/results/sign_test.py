# SPDX-License-Identifier: Apache-2.0
"""Intervals and tests of a median, exactly, by order statistics.

They hold for independent values of any distribution, skewed or with outliers:
up to half of the values may be anything. Of few values they say themselves how
sure they are; a bootstrap of few values, in contrast, is narrower than it
claims to be. Signed ranks (Wilcoxon) would give intervals that are a sixth
narrower of quiet rounds, but wide ones as soon as a neighbour slows single
rounds down.

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

    :ivar confidence: that the bounds enclose what is estimated; below what was
        asked for if there are too few values for more.
    """

    estimate: float
    low: float
    high: float
    confidence: float


def interval(values: Sequence[float], confidence: float) -> Interval:
    """Of the median; below six values from the least to the most of all.

    :raises BenchError: there are none.
    """
    if not values:
        raise errors.BenchError('no rounds, so no median')
    count = len(values)
    return bounds(numpy.sort(values),
                  scipy.stats.binom.cdf(numpy.arange(count), count, 0.5),
                  confidence)


def bounds(ordered: numpy.ndarray, cumulative: numpy.ndarray,
           confidence: float) -> Interval:
    """Of what leaves out as many values on each side as it may.

    :param ordered: the estimate is their median.
    :param cumulative: the probability that up to `index` of the ordered values
        lie on one side of what is estimated.
    """
    outside = (1 - confidence) / 2
    # With too few values the extremes, whatever their confidence.
    index = max(int(numpy.searchsorted(cumulative, outside, 'right')) - 1, 0)
    return Interval(float(numpy.median(ordered)), float(ordered[index]),
                    float(ordered[-1 - index]),
                    max(0.0, 1 - 2 * float(cumulative[index])))


def p_above(values: Sequence[float], bound: float) -> float:
    """That values like these have a median that is not above the bound.

    Values on the bound count against it.
    """
    at_or_below = sum(value <= bound for value in values)
    return float(scipy.stats.binom.cdf(at_or_below, len(values), 0.5))


def p_below(values: Sequence[float], bound: float) -> float:
    """That they have a median that is not below the bound."""
    return p_above([-value for value in values], -bound)
