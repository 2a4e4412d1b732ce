# SPDX-License-Identifier: Apache-2.0
"""Decides whether two runs differ: changed, same, or can't tell.

"Changed" and "same" are both claims that have to be shown against the smallest
difference of interest. For a change, the whole interval is beyond it, even
after correction for many tests (Benjamini and Hochberg, 1995). For the same,
the whole interval is within it (equivalence; Schuirmann, 1987). If neither is
shown, the verdict is "can't tell", with the number of rounds that might do.

Rounds that were measured in turn are compared in pairs, so that whatever
slowed both cancels out. Otherwise the speed of the machine may have changed,
and the interval is widened by its known drift.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import math
import re
import statistics

import scipy.stats

from bench.results import model
from bench.results import rank_sum
from bench.results import sign_test

CHANGED, SAME, UNKNOWN = 'changed', 'same', "can't tell"
BETTER, WORSE = 'better', 'worse'

SIGNIFICANCE = 0.05
# The round at the end of a mark, and figures anywhere in it.
_ROUND = re.compile(r' \(round \d+\)$')
_FIGURE = re.compile(r'\d[\d,.]*')

# More rounds are not worth asking for.
ROUNDS_NEEDED_MAX = 1000

# Drift between runs at different times on an unknown machine, for the shared
# ones that suites run on by default.
UNKNOWN_DRIFT = 0.20


@dataclasses.dataclass(frozen=True)
class Interest:
    """The smallest difference of interest.

    :ivar relative: 0.03 is 3 %: from 1 / 1.03 to 1.03 times as much.
    :ivar absolute: by unit; the larger of both counts. Costs of packets are
        differences of two figures in whole nanoseconds and depend on where
        the kernel places the program and its tables: the same program loaded
        twice differed by up to 4 ns for as long as it stayed loaded.
    """

    relative: float = 0.03
    absolute: Mapping[str, float] = dataclasses.field(
        default_factory=lambda: {'ns': 5.0})

    def bound(self, unit: str, reference: float) -> float:
        """Return the bound in the unit, for a figure of this size."""
        return max(self.relative * abs(reference),
                   self.absolute.get(unit, 0.0))


@dataclasses.dataclass(frozen=True)
class Change:
    """The verdict on one case.

    :ivar interval: of after relative to before, as ratio minus one, or in the
        unit if `is_ratio` is unset, as with zeroes; None: nothing to compare.
    :ivar bound: the smallest difference of interest, on the same scale.
    :ivar p: probability of no change, adjusted for the number of cases.
    :ivar direction: better or worse, for a change.
    :ivar reason: reason for "can't tell".
    :ivar rounds_needed: rounds that might suffice; None: no known number.
    """

    before: model.Case
    after: model.Case
    verdict: str
    interval: sign_test.Interval | None = None
    is_ratio: bool = True
    bound: float = 0.0
    p: float = 1.0
    direction: str | None = None
    reason: str | None = None
    rounds_needed: int | None = None


@dataclasses.dataclass(frozen=True)
class _Test:
    """A case on the scale of the test: logarithms, or the unit."""

    interval: sign_test.Interval
    is_ratio: bool
    bounds: tuple[float, float]
    p: float
    rounds: int
    spread: float
    drift: float

    @property
    def is_same(self):
        low, high = self.bounds
        return (self.interval.confidence >= 1 - SIGNIFICANCE
                and low <= self.interval.low
                and self.interval.high <= high)


def compare(pairs: Sequence[tuple[model.Case, model.Case]],
            interest: Interest, drifts: Mapping[tuple[str, str], float] | None,
            ) -> list[Change]:
    """Compare each case before with the same case after.

    :param drifts: None: rounds were measured in turn; else by (software,
        name), how far apart two runs without a change can be; 0.2 is 20 %.
    """
    tests = [_test(before, after, interest, drifts)
             for before, after in pairs]
    values = [test.p for test in tests if test]
    adjusted = iter(scipy.stats.false_discovery_control(values)
                    if values else ())
    return [
        _judge(before, after, test, float(next(adjusted)), len(values))
        if test else Change(before, after, UNKNOWN,
                            reason=_nothing(before, after))
        for (before, after), test in zip(pairs, tests, strict=True)]


def overall(changes: Sequence[Change]) -> str:
    """Return the verdict on all cases: CHANGED if any, SAME if all are."""
    verdicts = {change.verdict for change in changes}
    if CHANGED in verdicts:
        return CHANGED
    return SAME if verdicts == {SAME} else UNKNOWN


def _test(before, after, interest, drifts):
    if (before.unit, before.better) != (after.unit, after.better):
        return None
    first, second = before.samples, after.samples
    if drifts is None:
        rounds = min(len(first), len(second))
        first, second = first[:rounds], second[:rounds]
    if not first or not second:
        return None
    reference = statistics.median(first)
    bound = interest.bound(before.unit, reference)
    drift = (drifts or {}).get((before.software, before.name),
                               UNKNOWN_DRIFT if drifts is not None else 0.0)
    is_ratio = min(*first, *second) > 0
    if is_ratio:
        first, second = ([math.log(value) for value in values]
                         for values in (first, second))
        high = math.log1p(bound / reference)
        widened = math.log1p(drift)
    else:
        high, widened = bound, drift * abs(reference)
    return _ranked(first, second, is_ratio, high, widened,
                   in_turn=drifts is None)


def _ranked(first, second, is_ratio, bound, drift, in_turn):
    beyond = bound + drift
    if in_turn:
        values = [new - old for old, new in zip(first, second, strict=True)]
        interval = sign_test.interval(values, 1 - SIGNIFICANCE)
        spread = scipy.stats.median_abs_deviation(values, scale='normal')
        p = min(sign_test.p_above(values, beyond),
                sign_test.p_below(values, -beyond))
    else:
        interval = rank_sum.interval(first, second, 1 - SIGNIFICANCE)
        spread = 0.0
        p = min(rank_sum.p_above(first, second, beyond),
                rank_sum.p_below(first, second, -beyond))
    widened = dataclasses.replace(interval, low=interval.low - drift,
                                  high=interval.high + drift)
    return _Test(widened, is_ratio, (-bound, bound), min(1.0, 2 * p),
                 min(len(first), len(second)), float(spread), drift)


def _judge(before, after, test, p, tests):
    verdict, direction, reason, needed = UNKNOWN, None, None, None
    foreign = _kinds(before) ^ _kinds(after)
    if foreign:
        reason = 'only one of them has the mark: ' + '; '.join(sorted(foreign))
    elif p <= SIGNIFICANCE:
        verdict = CHANGED
        higher = test.interval.estimate > 0
        direction = (BETTER if higher == (before.better == model.HIGHER)
                     else WORSE)
    elif test.is_same:
        verdict = SAME
    elif test.drift:
        reason = ('not measured in turn: the machine may have been faster or '
                  'slower')
    else:
        needed = _rounds_needed(test, tests)
        if test.interval.confidence < 1 - SIGNIFICANCE:
            reason = 'too few rounds'
        else:
            reason = 'the smallest difference of interest is in the interval'
        if needed is None:
            reason += f', and {ROUNDS_NEEDED_MAX} rounds would not do'
    return Change(before, after, verdict, _shown(test.interval, test.is_ratio),
                  test.is_ratio, _scaled(test.bounds[1], test.is_ratio), p,
                  direction, reason, needed)


def _rounds_needed(test, tests):
    """Return the rounds for an interval that ends before the bound, and for a
    sufficiently small p.

    Uses the median's standard error for normal noise; its spread is the median
    absolute deviation, since few outliers will not matter among more rounds.
    """
    least = math.ceil(math.log2(2 * tests / SIGNIFICANCE))
    margin = abs(test.bounds[1] - abs(test.interval.estimate))
    if not margin:
        return None
    error = math.sqrt(math.pi / 2) * test.spread / margin
    quantile = scipy.stats.norm.ppf(1 - SIGNIFICANCE / 2)
    needed = max(least, math.ceil((quantile * error) ** 2), test.rounds + 1)
    return needed if needed <= ROUNDS_NEEDED_MAX else None


def _kinds(case):
    """Return subjects of marks (before the colon), without figures."""
    return {_FIGURE.sub('…', _ROUND.sub('', mark).partition(':')[0])
            for mark in case.marks}


def _nothing(before, after):
    if (before.unit, before.better) != (after.unit, after.better):
        return f'measured in {before.unit} and {after.unit}'
    marks = '; '.join(dict.fromkeys(before.marks + after.marks))
    return f'not measured: {marks}'


def _shown(interval, is_ratio):
    return dataclasses.replace(
        interval, estimate=_scaled(interval.estimate, is_ratio),
        low=_scaled(interval.low, is_ratio),
        high=_scaled(interval.high, is_ratio))


def _scaled(value, is_ratio):
    return math.expm1(value) if is_ratio else value
