# SPDX-License-Identifier: Apache-2.0
"""The announcer's interface of a BGP speaker; exabgp.py implements it.

A speaker keeps routes and sends each to all neighbours that carry its family.
It keeps its routes when its caller ends; a new caller compares and corrects
them.
"""

import collections.abc
import typing

from octavia_xdp_provider.agent.bgp.route import Network
from octavia_xdp_provider.agent.bgp.route import Route

# Takes a neighbour's address, whether its session is up, and the reason or ''.
SessionChanged = collections.abc.Callable[[str, bool, str], None]


class SpeakerError(Exception):
    """The speaker did not answer, or its answer is unexpected."""


class SpeakerClosed(Exception):
    """The speaker has ended."""


class Neighbour(typing.NamedTuple):
    """A router in the speaker's configuration.

    ``session``: IP version of the BGP session. ``carries``: IP versions of
    routes that are configured for it. ``takes``: those that the router takes,
    once the session is up.
    """

    up: bool
    session: int
    carries: frozenset[int]
    takes: frozenset[int]
    local_as: int
    peer_as: int


class Speaker(typing.Protocol):
    """The routes of one node as sent to its neighbours.

    All methods but ``fileno`` and ``subscribe`` may raise SpeakerError and
    SpeakerClosed. Changes take many routes at a time, since many may be
    answered as fast as one.
    """

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of the attributes of a Route that it can send."""
        ...

    def fileno(self) -> int:
        """Return a descriptor, readable when ``receive`` has work to do."""
        ...

    def subscribe(self, changed: SessionChanged) -> None:
        """Set the callback for sessions; any other call may invoke it."""
        ...

    def synchronise(self) -> None:
        """Begin, and recover from what a predecessor left half done."""
        ...

    def receive(self) -> None:
        """Process unsolicited input without waiting."""
        ...

    def neighbours(self) -> dict[str, Neighbour]:
        """Return address → Neighbour."""
        ...

    def routes(self) -> dict[str, set[Network]]:
        """Return address of a neighbour → prefixes to be sent to it."""
        ...

    def problem(self, route: Route) -> str | None:
        """Return why the speaker cannot send a route, or None if no reason is
        known; as of the last call of ``neighbours``."""
        ...

    def announce(self, routes: collections.abc.Sequence[Route]
                 ) -> list[Route]:
        """Send routes, replacing earlier ones of the same prefixes.

        :returns: those refused.
        """
        ...

    def withdraw(self, routes: collections.abc.Sequence[Route]
                 ) -> list[Route]:
        """Withdraw routes; a Route with only its prefix is sufficient.

        :returns: those refused.
        """
        ...
