# SPDX-License-Identifier: Apache-2.0
"""Figures of one run: medians with their intervals, and ratios to peers."""

import math

from bench import errors
from bench.results import model
from bench.results import sign_test

CONFIDENCE = 0.95


def median(samples: list[float]) -> sign_test.Interval:
    """:raises BenchError: there are no samples."""
    return sign_test.interval(samples, CONFIDENCE)


def versus(peer: str, ours: model.Case, other: model.Case) -> model.Versus:
    """Compare a case of the product with a peer's, round by round.

    The ratio is the median of the rounds' ratios.

    :raises BenchError: the cases are not comparable.
    """
    if (ours.name, ours.unit, ours.better) != (
            other.name, other.unit, other.better):
        raise errors.BenchError(f'{ours.name} in {ours.unit} is not beside '
                                f'{other.name} in {other.unit}')
    pairs = list(zip(ours.samples, other.samples, strict=False))
    if not pairs:
        raise errors.BenchError(f'{ours.name}: no rounds beside {peer}')
    if any(value <= 0 for pair in pairs for value in pair):
        raise errors.BenchError(f'{ours.name}: there is no ratio of zero to '
                                f'{peer}')
    sign = 1 if ours.better == model.HIGHER else -1
    logarithms = [sign * math.log(our / their) for our, their in pairs]
    interval = median(logarithms)
    return model.Versus(peer, ours.name, math.exp(interval.estimate),
                        math.exp(interval.low), math.exp(interval.high))
