# SPDX-License-Identifier: Apache-2.0
"""Rates between two readings of the counters.

To be cheap with thousands of services, it subtracts columns of numbers and
creates objects only for services that are shown.
"""

import heapq
import time
import typing

from octavia_xdp_provider.node.types import Outcome
from octavia_xdp_provider.node.types import OutcomeCounters

ORDERS = ('packets', 'bytes', 'flows')


class Row(typing.NamedTuple):
    """A service or member; rates per second."""

    name: object
    packets: float
    bytes: float
    flows: float
    service: object = None


class View(typing.NamedTuple):
    """``outcomes``: (name, rates per second, totals), the fastest first; both
    are OutcomeCounters.
    """

    seconds: float
    services: int
    total: Row
    rows: list
    outcomes: list


def _since(now, before):
    # A counter that has decreased belongs to a new service, or was reset.
    return [new - old if new >= old else new
            for new, old in zip(now, before, strict=True)]


def changes(now, before):
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

    def __init__(self, node, clock=time.monotonic):
        self._node = node
        self._clock = clock
        self._look()
        self._members = {}

    def _look(self):
        self._time = self._clock()
        self._sample = self._node.sample()
        self._outcomes = self._node.outcomes()

    def view(self, order, limit):
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
                column[position] / seconds for column in columns), service))
        return View(
            seconds, self._sample.count,
            Row('all', *(sum(column) / seconds for column in columns)), rows,
            self._outcome_rates(outcomes, seconds))

    def _outcome_rates(self, before, seconds):
        none = OutcomeCounters(0, 0)
        rates = [
            (outcome.name, OutcomeCounters(*((new - old) / seconds for new, old
             in zip(counted, before.get(outcome, none), strict=True))),
             counted)
            for outcome, counted in self._outcomes.items()
            if outcome > Outcome.FORWARDED and counted.packets]
        return sorted(rates, key=lambda row: (-row[1].packets,
                                              -row[2].packets))

    def members(self, key):
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
                change / seconds for change in _since(member.counters, old)),
                member))
        return rows
