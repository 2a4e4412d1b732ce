# SPDX-License-Identifier: Apache-2.0
"""Rates between two looks at the counters.

Cheap with thousands of services: columns of numbers are subtracted, and only
those services that are shown become objects.
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
    # A counter that is smaller is another service's, or was made anew.
    return [new - old if new >= old else new
            for new, old in zip(now, before, strict=True)]


def changes(now, before):
    """Of each service of `now`, the differences: three lists."""
    columns = []
    for name in ORDERS:
        old = getattr(before, name)
        if now.names != before.names:
            known = dict(zip(before.names, old, strict=True))
            old = [known.get(one, 0) for one in now.names]
        columns.append(_since(getattr(now, name), old))
    return columns


class Meter:
    """Looks at the counters again and again."""

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
        """Rates since the last view; the `limit` fastest services."""
        time_, sample, outcomes = self._time, self._sample, self._outcomes
        self._look()
        seconds = max(self._time - time_, 1e-9)
        columns = changes(self._sample, sample)
        by = columns[ORDERS.index(order)]
        fastest = heapq.nlargest(limit, range(len(by)),
                                 key=lambda one: (by[one], -one))
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
        found = [
            (one.name, OutcomeCounters(*(
                (new - old) / seconds for new, old in zip(
                    counted, before.get(one, none), strict=True))), counted)
            for one, counted in self._outcomes.items()
            if one > Outcome.FORWARDED and counted.packets]
        return sorted(found, key=lambda one: (-one[1].packets,
                                              -one[2].packets))

    def members(self, key):
        """Rows of a service's members since they were last asked for."""
        now, members = self._clock(), self._node.members(key)
        before, time_ = self._members.get(key, ({}, now))
        seconds = max(now - time_, 1e-9)
        self._members = {key: ({one.name: one.counters
                                for one in members}, now)}
        rows = []
        for one in members:
            old = before.get(one.name, one.counters)
            rows.append(Row(str(one.name), *(
                change / seconds for change in _since(one.counters, old)),
                one))
        return rows
