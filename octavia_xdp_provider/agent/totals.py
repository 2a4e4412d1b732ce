# SPDX-License-Identifier: Apache-2.0
"""What all services of the node together have counted.

Each service has counters of its own, which go with it: their plain sum would
fall whenever a load balancer is deleted. This one never falls.
"""

import typing


class Total(typing.NamedTuple):
    """As datapath.Summary has it of one service."""

    packets: int = 0
    bytes: int = 0
    flows: int = 0


class Totals:
    """Looked after by the worker's thread, read by any."""

    def __init__(self):
        # The services, and what is to be added to their sum; in one, for
        # those who read meanwhile.
        self._state = None

    def look(self, services):
        """Take the services as they are now, key → datapath.Summary."""
        if self._state is None:
            # Beginning at 0, as a process' counters do: with what was counted
            # before it, less what services counted that went, the sum would
            # be less than the last one of the process before.
            extra = Total(*(-number for number in _sum(services.values())))
        else:
            before, extra = self._state
            ended = [old for key, old in before.items()
                     if _is_another(services.get(key), old)]
            if ended:
                extra = _sum([extra, *ended])
        self._state = services, extra

    def now(self):
        """Total since the first look."""
        if self._state is None:
            return Total()
        services, extra = self._state
        return _sum([extra, *services.values()])


def _sum(counted):
    return Total(*(sum(getattr(one, name) for one in counted)
                   for name in Total._fields))


def _is_another(one, old):
    """Whether a service went, or was made again, since it was ``old``."""
    return one is None or one.packets < old.packets
