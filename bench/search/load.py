# SPDX-License-Identifier: Apache-2.0
"""Trials at one rate, and their verdict on it (RFC 9971, load
classification)."""

import dataclasses
import enum

from bench.search import goal


class Verdict(enum.Enum):
    """The verdict on a rate."""

    LOWER = 'lower bound'
    UPPER = 'upper bound'
    UNDECIDED = 'undecided'


@dataclasses.dataclass
class Load:
    """A rate with its valid trials."""

    rate: float
    trials: list[goal.Trial] = dataclasses.field(default_factory=list)

    def _lossy_seconds(self, wanted: goal.Goal) -> float:
        return sum(trial.seconds for trial in self.trials
                   if trial.loss_ratio > wanted.loss_ratio)

    @property
    def seconds(self) -> float:
        """Total duration of the trials."""
        return sum(trial.seconds for trial in self.trials)

    def verdict(self, wanted: goal.Goal) -> Verdict:
        """Return the verdict that holds whatever further trials yield."""
        lossy = self._lossy_seconds(wanted)
        whole = max(wanted.sum_seconds, self.seconds)
        missing = whole - self.seconds
        if lossy / whole > wanted.exceed_ratio:
            return Verdict.UPPER
        if (lossy + missing) / whole <= wanted.exceed_ratio:
            return Verdict.LOWER
        return Verdict.UNDECIDED

    def lossy(self, wanted: goal.Goal) -> int:
        """Return how many of the trials lost more than allowed."""
        return sum(trial.loss_ratio > wanted.loss_ratio
                   for trial in self.trials)

    def forwarded(self, wanted: goal.Goal) -> float:
        """Return the conditional throughput of a lower bound: packets/s that
        came through in all trials except the worst ones that may exceed."""
        allowed = wanted.exceed_ratio * max(wanted.sum_seconds, self.seconds)
        worst = sorted(self.trials, key=lambda trial: -trial.loss_ratio)
        for trial in worst:
            allowed -= trial.seconds
            if allowed < 0:
                return self.rate * (1 - trial.loss_ratio)
        return self.rate * (1 - worst[-1].loss_ratio)
