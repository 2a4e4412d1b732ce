# SPDX-License-Identifier: Apache-2.0
"""Trials at one rate, and what they say of it (RFC 9971, load
classification)."""

import dataclasses
import enum

from bench.search import goal


class Verdict(enum.Enum):
    """Of a rate."""

    LOWER = 'lower bound'
    UPPER = 'upper bound'
    UNDECIDED = 'undecided'


@dataclasses.dataclass
class Load:
    """A rate, and the trials at it that count."""

    rate: float
    trials: list[goal.Trial] = dataclasses.field(default_factory=list)

    def _lossy_seconds(self, wanted: goal.Goal) -> float:
        return sum(trial.seconds for trial in self.trials
                   if trial.loss_ratio > wanted.loss_ratio)

    @property
    def seconds(self) -> float:
        """Of all trials."""
        return sum(trial.seconds for trial in self.trials)

    def verdict(self, wanted: goal.Goal) -> Verdict:
        """What holds whatever the trials still missing would say."""
        lossy = self._lossy_seconds(wanted)
        whole = max(wanted.sum_seconds, self.seconds)
        missing = whole - self.seconds
        if lossy / whole > wanted.exceed_ratio:
            return Verdict.UPPER
        if (lossy + missing) / whole <= wanted.exceed_ratio:
            return Verdict.LOWER
        return Verdict.UNDECIDED

    def lossy(self, wanted: goal.Goal) -> int:
        """How many of the trials lost more than is allowed."""
        return sum(trial.loss_ratio > wanted.loss_ratio
                   for trial in self.trials)

    def forwarded(self, wanted: goal.Goal) -> float:
        """Packets/s that came through in all trials but for the worst, as
        many as may exceed: conditional throughput. Of a lower bound."""
        allowed = wanted.exceed_ratio * max(wanted.sum_seconds, self.seconds)
        worst = sorted(self.trials, key=lambda trial: -trial.loss_ratio)
        for trial in worst:
            allowed -= trial.seconds
            if allowed < 0:
                return self.rate * (1 - trial.loss_ratio)
        return self.rate * (1 - worst[-1].loss_ratio)
