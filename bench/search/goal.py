# SPDX-License-Identifier: Apache-2.0
"""The goal of a search, and results of trials."""

import dataclasses

from bench import errors


@dataclasses.dataclass(frozen=True)
class Goal:
    """A rate, as RFC 9971 ("Multiple Loss Ratio Search") describes goals.

    :param loss_ratio: largest part of sent packets that a trial may lose.
    :param exceed_ratio: largest part of the time of trials at one rate that
        may belong to trials that lose more.
    :param trial_seconds: duration of each trial (goal final trial duration).
    :param sum_seconds: duration of the trials that decide about a rate (goal
        duration sum).
    :param width: width of the final interval, relative to its upper end.
    :param reached: part of the requested rate below which a trial is void.
    :param retries: repetitions of a void trial.
    :param trials_max: limit of trials at all rates together.
    """

    loss_ratio: float = 0.0
    exceed_ratio: float = 0.5
    trial_seconds: float = 1.0
    sum_seconds: float = 3.0
    width: float = 0.01
    reached: float = 0.99
    retries: int = 3
    trials_max: int = 100


@dataclasses.dataclass(frozen=True)
class Trial:
    """Traffic at one rate.

    :param asked: packets/s.
    :param seconds: duration of sending.
    :param disturbed: why this trial is void, for example other load of the
        machine; None: it is valid.
    """

    asked: float
    seconds: float
    sent: int
    lost: int
    disturbed: str | None = None

    def __post_init__(self):
        if not self.seconds > 0 or not 0 <= self.lost <= self.sent:
            raise errors.BenchError(
                f'a trial of {self.seconds} seconds that lost {self.lost} of '
                f'{self.sent} packets: the generator or the sink miscounts')

    @property
    def rate(self) -> float:
        """Sent packets/s."""
        return self.sent / self.seconds

    @property
    def loss_ratio(self) -> float:
        """Lost part of the sent packets; 1 if none were sent."""
        return self.lost / self.sent if self.sent else 1.0


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a search.

    :ivar rate: the highest confirmed rate, packets/s, or None.
    :ivar upper: the lowest refuted rate above it; None if no higher rate could
        be sent.
    :ivar forwarded: conditional throughput at `rate`.
    :ivar trials: number of trials at all rates.
    :ivar confirming_seconds: total duration of the trials at `rate`.
    :ivar marks: reservations about the rate.
    """

    rate: float | None
    upper: float | None
    forwarded: float | None
    trials: int
    confirming_seconds: float
    marks: list[str]

    @property
    def lower(self) -> float:
        """The lower end of the interval: `rate`, or 0."""
        return self.rate or 0.0
