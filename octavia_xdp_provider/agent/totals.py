# SPDX-License-Identifier: Apache-2.0
"""Counters of all services of the node together, which never decrease.

The plain sum of the services' counters would decrease whenever a load
balancer is deleted, because counters are deleted with their service.
"""

from collections.abc import Iterable
import typing

from octavia_xdp_provider.node import datapath

Services = dict[datapath.Key, datapath.Summary]


class Total(typing.NamedTuple):
    """Counters as in datapath.Summary."""

    packets: int = 0
    bytes: int = 0
    flows: int = 0


class Totals:
    """Updated by the worker's thread, read by any."""

    def __init__(self) -> None:
        # The services, and the Total to add to their sum. One tuple, so that
        # readers in other threads get both from the same look.
        self._state: tuple[Services, Total] | None = None

    def look(self, services: Services) -> None:
        """Take the current services."""
        if self._state is None:
            # Begin at 0, as a restarted process does. Beginning with the
            # current counters would look like a decrease, as those of deleted
            # services are missing.
            extra = Total(*(-number for number in _sum(services.values())))
        else:
            before, extra = self._state
            ended = [old for key, old in before.items()
                     if _has_ended(services.get(key), old)]
            if ended:
                extra = _sum([extra, *ended])
        self._state = services, extra

    def now(self) -> Total:
        """Return the Total since the first look."""
        if self._state is None:
            return Total()
        services, extra = self._state
        return _sum([extra, *services.values()])


def _sum(counters: Iterable[Total | datapath.Summary]) -> Total:
    listed = list(counters)
    return Total(*(sum(getattr(counter, name) for counter in listed)
                   for name in Total._fields))


def _has_ended(new: datapath.Summary | None, old: datapath.Summary) -> bool:
    """Return whether a service was deleted or replaced since ``old``."""
    return new is None or new.packets < old.packets
