# SPDX-License-Identifier: Apache-2.0
"""What the announcer asks of a BGP speaker; exabgp.py is one.

A speaker keeps routes and sends each to all neighbours that carry its family.
What it has it keeps when its caller ends: the caller compares and corrects.
"""

import collections.abc
import typing

from octavia_xdp_provider.agent.bgp.route import Network
from octavia_xdp_provider.agent.bgp.route import Route

# Called with a neighbour's address, whether its session is up, and the
# reason or ''.
SessionChanged = collections.abc.Callable[[str, bool, str], None]


class SpeakerError(Exception):
    """The speaker did not answer, or not what was asked for."""


class SpeakerClosed(Exception):
    """The speaker has ended."""


class Neighbour(typing.NamedTuple):
    """A router that the speaker is configured for.

    ``session``: IP version of the BGP session. ``carries``: IP versions of
    the routes that it is configured for. ``takes``: those that the router
    takes, once the session is up.
    """

    up: bool
    session: int
    carries: frozenset[int]
    takes: frozenset[int]
    local_as: int
    peer_as: int


class Speaker(typing.Protocol):
    """Routes of one node, as its neighbours are sent them.

    All but ``fileno`` and ``subscribe`` raise SpeakerError and
    SpeakerClosed. Calls take many routes, since an answer may take as long
    as it takes for one.
    """

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of the attributes of a Route that it can send."""
        ...

    def fileno(self) -> int:
        """A descriptor that is readable when ``receive`` has work."""
        ...

    def subscribe(self, changed: SessionChanged) -> None:
        """Have sessions' changes reported, from within all other calls."""
        ...

    def synchronise(self) -> None:
        """Begin; what a predecessor left half done does no harm."""
        ...

    def receive(self) -> None:
        """Take in what has come by itself, without waiting."""
        ...

    def neighbours(self) -> dict[str, Neighbour]:
        """Neighbour by its address."""
        ...

    def routes(self) -> dict[str, set[Network]]:
        """The prefixes that it has for each neighbour, by its address."""
        ...

    def problem(self, route: Route) -> str | None:
        """Why it could not send a route as its neighbours were when
        ``neighbours`` was called last; None: nothing known against it."""
        ...

    def announce(self, routes: collections.abc.Sequence[Route]
                 ) -> list[Route]:
        """Send routes, in place of what the same prefixes had.

        :returns: those refused.
        """
        ...

    def withdraw(self, routes: collections.abc.Sequence[Route]
                 ) -> list[Route]:
        """Withdraw routes; where only the prefix is known, that is enough.

        :returns: those refused.
        """
        ...
