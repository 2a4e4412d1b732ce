# SPDX-License-Identifier: Apache-2.0
"""What a run of a suite found: types that engine, store and reports share."""

import dataclasses
import datetime
from typing import Any

HIGHER, LOWER = BETTER = ('higher', 'lower')


@dataclasses.dataclass
class Case:
    """One figure, by rounds.

    :ivar name: of scenario and matrix, as in 'loss_free_rate/ipip/64':
        the same in each run that measures the same thing.
    :ivar unit: of `samples`: packets/s, ns, requests/s, s, bytes, 1.
    :ivar samples: a value for each round, in the order of rounds.
    :ivar software: under test, as in 'xdp' or 'haproxy'.
    :ivar marks: why the figure is not what was asked for; never dropped.
    :ivar coordinates: of plots, as in {'size': 64, 'flows': 1024}.
    :ivar timeline: (seconds, sent, lost), of scenarios with events.
    :ivar events: (seconds, text).
    :ivar details: whatever else was found, JSON.
    """

    name: str
    unit: str
    better: str
    samples: list[float]
    software: str = 'xdp'
    marks: list[str] = dataclasses.field(default_factory=list)
    coordinates: dict[str, float | str] = dataclasses.field(
        default_factory=dict)
    timeline: list[tuple[float, int, int]] = dataclasses.field(
        default_factory=list)
    events: list[tuple[float, str]] = dataclasses.field(default_factory=list)
    details: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Versus:
    """A case beside the same of a peer, in the same run, on the same bed.

    :ivar ratio: ours by theirs, the median of the rounds' ratios; over 1 is
        better for us, whatever the unit.
    """

    peer: str
    case: str
    ratio: float
    low: float
    high: float


@dataclasses.dataclass
class Run:
    """A suite that ran to its end: halves are not kept.

    :ivar id: of the store.
    :ivar fingerprint: all that can change a result (fingerprint.py), JSON.
    """

    suite: str
    commit: str
    started: datetime.datetime
    fingerprint: dict[str, Any]
    cases: list[Case] = dataclasses.field(default_factory=list)
    versus: list[Versus] = dataclasses.field(default_factory=list)
    id: int | None = None
