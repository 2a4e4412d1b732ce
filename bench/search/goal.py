# SPDX-License-Identifier: Apache-2.0
"""What is searched for, and what a trial found."""

import dataclasses

from bench import errors


@dataclasses.dataclass(frozen=True)
class Goal:
    """A rate, as RFC 9971 ("Multiple Loss Ratio Search") describes goals.

    :param loss_ratio: the most that a trial may lose, of what was sent.
    :param exceed_ratio: of the time of trials at one rate, how much may be
        of trials that lose more.
    :param trial_seconds: of each trial (goal final trial duration).
    :param sum_seconds: of the trials that decide about a rate (goal duration
        sum).
    :param width: of the interval that is left, relative to its upper end.
    :param reached: of the rate asked for: below, a trial says nothing.
    :param retries: of a trial that says nothing.
    :param trials_max: of all rates together.
    """

    loss_ratio: float = 0.0
    exceed_ratio: float = 0.5
    trial_seconds: float = 1.0
    sum_seconds: float = 3.0
    width: float = 0.01
    reached: float = 0.99
    retries: int = 3
    trials_max: int = 100

    def __post_init__(self):
        for name, good, text in (
                ('loss_ratio', 0 <= self.loss_ratio < 1, 'from 0 to below 1'),
                ('exceed_ratio', 0 <= self.exceed_ratio < 1,
                 'from 0 to below 1'),
                ('trial_seconds', self.trial_seconds > 0, 'above 0'),
                ('sum_seconds', self.sum_seconds >= self.trial_seconds,
                 'at least that of one trial'),
                ('width', 0 < self.width < 1, 'between 0 and 1'),
                ('reached', 0 < self.reached <= 1, 'above 0, up to 1'),
                ('retries', self.retries >= 0, '0 or more'),
                ('trials_max', self.trials_max >= 1, '1 or more')):
            if not good:
                raise errors.BenchError(
                    f'goal of a search: {name} is {getattr(self, name)}; it '
                    f'has to be {text}')


# RFC 2544, section 26.1, as RFC 9971 states it: one trial of a minute decides.
RFC2544 = Goal(exceed_ratio=0.0, trial_seconds=60.0, sum_seconds=60.0)


@dataclasses.dataclass(frozen=True)
class Trial:
    """Traffic at one rate.

    :param asked: packets/s.
    :param seconds: of sending.
    :param disturbed: why this trial says nothing of the device: other load of
        the machine, for example; None: it does.
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
        """Of what was sent; all, if nothing was."""
        return self.lost / self.sent if self.sent else 1.0


@dataclasses.dataclass(frozen=True)
class Result:
    """What a search found.

    :ivar rate: the greatest one confirmed, packets/s; None: none was.
    :ivar upper: the least one refuted above it; None: none was, as nothing
        greater could be sent.
    :ivar forwarded: of `rate`, what came through: conditional throughput.
    :ivar trials: how many there were, of all rates.
    :ivar confirming_seconds: of the trials that confirm `rate`, together.
    :ivar marks: why the rate is not all that was asked for.
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
