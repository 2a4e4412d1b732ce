# SPDX-License-Identifier: Apache-2.0
"""Searches for the highest rate that a device forwards with little or no loss.

RFC 2544, section 26.1, halves intervals with one trial each. Software on
shared processors occasionally loses a packet at any rate. After one such
trial, that search ends far too low, and differently in each run. RFC 9971
(MLRsearch) therefore lets several trials decide about a rate, and states by
two ratios how much may be lost and how often. Its classification of rates is
used here (load.py); it leaves open which rate is tried next.

Trials in which the generator did not reach its rate, or which were disturbed,
are void: they are repeated and never count. A rate is reported only if its
own trials confirm it and no lower rate is refuted.
"""

from collections.abc import Callable
import math

from bench import errors
from bench.search import goal
from bench.search import load

Measure = Callable[[float, float], goal.Trial]


class _Search:
    """The rates tried so far."""

    def __init__(self, measure: Measure, low: float, high: float,
                 wanted: goal.Goal):
        self._measure, self._goal = measure, wanted
        self._low, self._high = low, high
        self._loads: dict[float, load.Load] = {}
        self._trials = 0
        self._limit: float | None = None  # of the generator
        self._marks: dict[str, None] = {}

    @property
    def _exhausted(self) -> bool:
        return self._trials >= self._goal.trials_max

    def _bound(self, verdict: load.Verdict) -> list[float]:
        return [rate for rate, tried in self._loads.items()
                if tried.verdict(self._goal) is verdict]

    def upper(self) -> float | None:
        """Return the lowest refuted rate: the relevant upper bound."""
        return min(self._bound(load.Verdict.UPPER), default=None)

    def lower(self) -> float | None:
        """Return the highest rate confirmed below: relevant lower bound."""
        upper = self.upper()
        return max((rate for rate in self._bound(load.Verdict.LOWER)
                    if upper is None or rate < upper), default=None)

    def _ceiling(self) -> float:
        return min(value for value in (self._high, self._limit, self.upper())
                   if value is not None)

    def _valid_trial(self, rate: float) -> goal.Trial | None:
        """Run trials until one is valid; None: none was."""
        reached = 0.0
        short = False
        for _ in range(self._goal.retries + 1):
            if self._exhausted:
                return None
            trial = self._measure(rate, self._goal.trial_seconds)
            self._trials += 1
            short = trial.rate < rate * self._goal.reached
            if trial.disturbed is None and not short:
                return trial
            reached = max(reached, trial.rate)
            if trial.disturbed is not None:
                self._marks[f'disturbed: {trial.disturbed}'] = None
        if short:
            self._limit = min(reached, self._limit or reached)
        else:
            self._marks[f'no undisturbed trial at {rate:.0f} packets/s'] = None
            self._limit = min(rate, self._limit or rate)
        return None

    def _try(self, rate: float) -> load.Verdict:
        """Run trials until they decide about the rate, or cannot."""
        tried = self._loads.setdefault(rate, load.Load(rate))
        while tried.verdict(self._goal) is load.Verdict.UNDECIDED:
            trial = self._valid_trial(rate)
            if trial is None:
                break
            tried.trials.append(trial)
        return tried.verdict(self._goal)

    def _middle(self, lower: float, ceiling: float) -> float:
        """Return the next rate in between. What came through at a refuted rate
        is a good guess unless it is close to an end."""
        upper = self.upper()
        if upper is not None and upper == ceiling:
            came = max(trial.rate * (1 - trial.loss_ratio)
                       for trial in self._loads[upper].trials)
            margin = (ceiling - lower) * 0.1
            if lower + margin < came < ceiling - margin:
                return came
        return math.sqrt(lower * ceiling)

    def run(self) -> goal.Result:
        """Search until the interval is narrow enough."""
        self._try(self._high)
        # Go down by ever larger steps until a rate is confirmed.
        factor = 2.0
        while self.lower() is None and not self._exhausted:
            ceiling = self._ceiling()
            if ceiling <= self._low:
                break
            guess = self._middle(max(self._low, ceiling / factor ** 2),
                                 ceiling)
            self._try(max(self._low, min(guess, ceiling / factor ** 0.5)))
            factor *= 2
        self._narrow()
        return self._result()

    def _narrow(self) -> None:
        while not self._exhausted:
            lower, ceiling = self.lower(), self._ceiling()
            if lower is None:
                if ceiling <= self._low:
                    return
                lower = self._low
            if ceiling - lower <= ceiling * self._goal.width:
                return
            middle = self._middle(lower, ceiling)
            if not lower < middle < ceiling:
                return
            if self._try(middle) is load.Verdict.UNDECIDED and (
                    self._limit is None or self._limit > middle):
                return

    def _result(self) -> goal.Result:
        rate, upper = self.lower(), self.upper()
        marks = [*self._marks]
        if self._limit is not None and (upper is None or self._limit < upper):
            marks.append(f'the generator reached {self._limit:.0f} packets/s '
                         'at most: greater rates were not tried')
        elif upper is None:
            marks.append(f'no loss at {self._high:.0f} packets/s, the '
                         'greatest rate tried')
        if rate is None:
            marks.append('no rate was confirmed, down to '
                         f'{min(self._loads):.0f} packets/s')
            return goal.Result(None, upper, None, self._trials, 0.0, marks)
        marks += self._confirmed_marks(rate, upper)
        tried = self._loads[rate]
        return goal.Result(rate, upper, tried.forwarded(self._goal),
                           self._trials, tried.seconds, marks)

    def _confirmed_marks(self, rate: float, upper: float | None) -> list[str]:
        marks = []
        tried = self._loads[rate]
        if tried.lossy(self._goal):
            marks.append(f'{tried.lossy(self._goal)} of '
                         f'{len(tried.trials)} trials at this rate lost more')
        ceiling = self._ceiling()
        if self._exhausted and ceiling - rate > ceiling * self._goal.width:
            marks.append(
                f'ended after {self._trials} trials: the interval is wider '
                f'than {self._goal.width:.2%}')
        inverted = [other for other in self._bound(load.Verdict.LOWER)
                    if upper is not None and other > upper]
        if inverted:
            marks.append(f'{max(inverted):.0f} packets/s were confirmed, but '
                         f'{upper:.0f} refuted: the device is not steady')
        return marks


def search(measure: Measure, low: float, high: float,
           wanted: goal.Goal | None = None) -> goal.Result:
    """Return the highest rate that reaches the goal.

    :param measure: sends at a rate (packets/s) for a time (seconds).
    :param low: the lowest rate to try.
    :param high: the highest rate to try, or to confirm.
    :raises BenchError: the bounds are invalid.
    """
    if not 0 < low < high < math.inf:
        raise errors.BenchError(
            f'a search from {low} to {high} packets/s; the lower bound has to '
            'be above 0 and below the upper one')
    return _Search(measure, low, high, wanted or goal.Goal()).run()
