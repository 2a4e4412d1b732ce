# SPDX-License-Identifier: Apache-2.0
"""Counters of all services of the node together, which never decrease.

The plain sum of the services' counters would decrease whenever a load
balancer is deleted, because counters are deleted with their service.
"""

import typing


class Total(typing.NamedTuple):
    """Counters as in datapath.Summary."""

    packets: int = 0
    bytes: int = 0
    flows: int = 0


class Totals:
    """Updated by the worker's thread, read by any."""

    def __init__(self):
        # The services, and the Total to add to their sum. One tuple, so that
        # readers in other threads get both from the same look.
        self._state = None

    def look(self, services):
        """Take the current services, key → datapath.Summary."""
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

    def now(self):
        """Return the Total since the first look."""
        if self._state is None:
            return Total()
        services, extra = self._state
        return _sum([extra, *services.values()])


def _sum(counters):
    return Total(*(sum(getattr(counter, name) for counter in counters)
                   for name in Total._fields))


def _has_ended(new, old):
    """Return whether a service was deleted or replaced since ``old``."""
    return new is None or new.packets < old.packets
