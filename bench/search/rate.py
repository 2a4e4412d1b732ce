# SPDX-License-Identifier: Apache-2.0
"""The greatest rate that a device forwards without loss, or with a little.

RFC 2544, section 26.1, halves intervals by one trial each. Devices that are
software on shared processors lose a packet now and then whatever the rate: one
such trial, and that search ends far too low, elsewhere with each run. RFC 9971
(MLRsearch) therefore lets several trials decide about a rate, and states by
two ratios how much may be lost and how often. Its classification of rates is
used here (load.py); which rate is tried next it leaves open. RFC 2544 is one
of its goals (goal.RFC2544), so that both can be had by one search.

Trials in which the generator did not reach its rate, or in which something
else disturbed the machine, say nothing: they are repeated, and never taken for
either answer. A rate is reported only if its own trials confirm it, and if no
smaller one is refuted.
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
        self._limit: float | None = None  # what the generator reaches
        self._marks: dict[str, None] = {}

    @property
    def _exhausted(self) -> bool:
        return self._trials >= self._goal.trials_max

    def _bound(self, verdict: load.Verdict) -> list[float]:
        return [rate for rate, tried in self._loads.items()
                if tried.verdict(self._goal) is verdict]

    def upper(self) -> float | None:
        """The least rate refuted: relevant upper bound."""
        return min(self._bound(load.Verdict.UPPER), default=None)

    def lower(self) -> float | None:
        """The greatest confirmed below it: relevant lower bound."""
        upper = self.upper()
        return max((rate for rate in self._bound(load.Verdict.LOWER)
                    if upper is None or rate < upper), default=None)

    def _ceiling(self) -> float:
        return min(value for value in (self._high, self._limit, self.upper())
                   if value is not None)

    def _one(self, rate: float) -> goal.Trial | None:
        """A trial that says something; None: there was none."""
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
        """Trials until they decide about the rate, or cannot."""
        tried = self._loads.setdefault(rate, load.Load(rate))
        while tried.verdict(self._goal) is load.Verdict.UNDECIDED:
            trial = self._one(rate)
            if trial is None:
                break
            tried.trials.append(trial)
        return tried.verdict(self._goal)

    def _middle(self, lower: float, ceiling: float) -> float:
        """The next rate between; what a refuted rate let through is a good
        guess, if it is not close to an end."""
        upper = self.upper()
        if upper is not None and upper == ceiling:
            came = max(trial.rate * (1 - trial.loss_ratio)
                       for trial in self._loads[upper].trials)
            margin = (ceiling - lower) * 0.1
            if lower + margin < came < ceiling - margin:
                return came
        return math.sqrt(lower * ceiling)

    def run(self) -> goal.Result:
        """Until the interval is as narrow as asked for."""
        self._try(self._high)
        # Down until a rate is confirmed, by larger and larger steps.
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
    """The greatest rate that reaches the goal.

    :param measure: sends at a rate (packets/s) for a time (seconds).
    :param low: no smaller rate is tried.
    :param high: no greater rate is tried, nor confirmed.
    :raises BenchError: bounds that are none.
    """
    if not 0 < low < high < math.inf:
        raise errors.BenchError(
            f'a search from {low} to {high} packets/s; the lower bound has to '
            'be above 0 and below the upper one')
    return _Search(measure, low, high, wanted or goal.Goal()).run()
