# SPDX-License-Identifier: Apache-2.0
"""Results of a suite's run: types that engine, store and reports share."""

import dataclasses
import datetime
from typing import Any

HIGHER, LOWER = BETTER = ('higher', 'lower')


@dataclasses.dataclass
class Case:
    """One figure, by rounds.

    :ivar name: scenario and cell of its matrix ('loss_free_rate/ipip/64'):
        equal in all runs that measure the same.
    :ivar unit: unit of `samples`: packets/s, ns, requests/s, s, bytes, 1.
    :ivar samples: a value for each round, in order.
    :ivar software: software under test, such as 'xdp' or 'haproxy'.
    :ivar marks: why the figure is in doubt; never dropped.
    :ivar coordinates: for plots, as in {'size': 64, 'flows': 1024}.
    :ivar timeline: (seconds, sent, lost), for scenarios with events.
    :ivar events: (seconds, text).
    :ivar details: further values as JSON.
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
    """A case compared with a peer's, in the same run on the same bed.

    :ivar ratio: median of the rounds' ratios; above 1, the product is better,
        whatever the unit.
    """

    peer: str
    case: str
    ratio: float
    low: float
    high: float


@dataclasses.dataclass
class Run:
    """A suite that ran to its end; others are not stored.

    :ivar id: number in the store.
    :ivar fingerprint: all that can change a result (fingerprint.py), JSON.
    """

    suite: str
    commit: str
    started: datetime.datetime
    fingerprint: dict[str, Any]
    cases: list[Case] = dataclasses.field(default_factory=list)
    versus: list[Versus] = dataclasses.field(default_factory=list)
    id: int | None = None
