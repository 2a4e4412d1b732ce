# SPDX-License-Identifier: Apache-2.0
"""Rates between two readings of the counters.

To be cheap with thousands of services, it subtracts columns of numbers and
creates objects only for services that are shown.
"""

from collections.abc import Callable
from collections.abc import Sequence
import heapq
import time
import typing
from typing import Any

from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.node.types import Counters
from octavia_xdp_provider.node.types import Key
from octavia_xdp_provider.node.types import MemberName
from octavia_xdp_provider.node.types import Outcome
from octavia_xdp_provider.node.types import OutcomeCounters

ORDERS = ('packets', 'bytes', 'flows')


class Row(typing.NamedTuple):
    """A service or member; rates per second."""

    name: Any
    packets: float
    bytes: float
    flows: float
    service: Any = None


class OutcomeRates(typing.NamedTuple):
    """As OutcomeCounters, per second."""

    packets: float
    bytes: float


class View(typing.NamedTuple):
    """``outcomes``: (name, rates, totals), the fastest first."""

    seconds: float
    services: int
    total: Row
    rows: list[Row]
    outcomes: list[tuple[str, OutcomeRates, OutcomeCounters]]


def _since(now: Sequence[int], before: Sequence[int]) -> list[int]:
    # A counter that has decreased belongs to a new service, or was reset.
    return [new - old if new >= old else new
            for new, old in zip(now, before, strict=True)]


def changes(now: inspection.Sample, before: inspection.Sample
            ) -> list[list[int]]:
    """Return the differences for the services of ``now``: three lists."""
    columns = []
    for name in ORDERS:
        old = getattr(before, name)
        if now.names != before.names:
            by_name = dict(zip(before.names, old, strict=True))
            old = [by_name.get(key, 0) for key in now.names]
        columns.append(_since(getattr(now, name), old))
    return columns


class Meter:
    """Reads the counters repeatedly and computes rates."""

    def __init__(self, node: inspection.Inspection,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._clock = clock
        self._look()
        # By service: counters by name, and when they were read.
        self._members: dict[Key, tuple[dict[MemberName, Counters], float]] = {}

    def _look(self) -> None:
        self._time = self._clock()
        self._sample = self._node.sample()
        self._outcomes = self._node.outcomes()

    def view(self, order: str, limit: int) -> View:
        """Return the rates since the last view of the ``limit`` fastest."""
        time_, sample, outcomes = self._time, self._sample, self._outcomes
        self._look()
        seconds = max(self._time - time_, 1e-9)
        columns = changes(self._sample, sample)
        by = columns[ORDERS.index(order)]
        fastest = heapq.nlargest(limit, range(len(by)),
                                 key=lambda index: (by[index], -index))
        rows = []
        for position in fastest:
            service = self._sample.service(position)
            rows.append(Row(service.key, *(
                column[position] / seconds for column in columns))._replace(
                    service=service))
        return View(
            seconds, self._sample.count,
            Row('all', *(sum(column) / seconds for column in columns)), rows,
            self._outcome_rates(outcomes, seconds))

    def _outcome_rates(self, before: dict[Outcome, OutcomeCounters],
                       seconds: float
                       ) -> list[tuple[str, OutcomeRates, OutcomeCounters]]:
        none = OutcomeCounters(0, 0)
        rates = [
            (outcome.name, OutcomeRates(*((new - old) / seconds for new, old
             in zip(counted, before.get(outcome, none), strict=True))),
             counted)
            for outcome, counted in self._outcomes.items()
            if outcome > Outcome.FORWARDED and counted.packets]
        return sorted(rates, key=lambda row: (-row[1].packets,
                                              -row[2].packets))

    def members(self, key: Key) -> list[Row]:
        """Return rows of a service's members, since the last call for it."""
        now, members = self._clock(), self._node.members(key)
        before, time_ = self._members.get(key, ({}, now))
        seconds = max(now - time_, 1e-9)
        self._members = {key: ({member.name: member.counters
                                for member in members}, now)}
        rows = []
        for member in members:
            old = before.get(member.name, member.counters)
            rows.append(Row(str(member.name), *(
                change / seconds for change in _since(member.counters, old))
                )._replace(service=member))
        return rows
