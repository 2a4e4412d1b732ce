# SPDX-License-Identifier: Apache-2.0
"""Members' ports, followed: whatever is missed once is seen later.

Neutron cannot be asked what has changed: its filter ``changed_since`` is
refused where filters are validated, as they are by default, and does not show
what was deleted. So each step looks at some members, those first whose turn
was longest ago, and at those at once that are new or of which somebody says
that they have changed.
"""

from collections.abc import Iterable
import itertools

from octavia_xdp_provider.controller.neutron_ports import client
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.neutron_ports import search

# Members that one step looks at without a hint: some six requests.
PER_STEP = 200


class Follower:
    """Follows members, from the moment on at which its caller names them.

    :ivar members: those that it follows.
    """

    def __init__(self, neutron: client.Neutron, per_step: int = PER_STEP
                 ) -> None:
        self._neutron = neutron
        self._per_step = per_step
        self.members: set[findings.Wanted] = set()
        self._new: set[findings.Wanted] = set()
        # In the order in which they were looked at, the longest ago first.
        self._known: dict[findings.Wanted, findings.Finding] = {}
        self._hinted: set[findings.Wanted] = set()

    def follow(self, members: Iterable[findings.Wanted]) -> None:
        """Look for these from the next step on."""
        new = set(members) - self.members
        self.members |= new
        self._new |= new

    def leave(self, members: Iterable[findings.Wanted]) -> None:
        """Do not look for these any more."""
        for one in members:
            self.members.discard(one)
            self._new.discard(one)
            self._hinted.discard(one)
            self._known.pop(one, None)

    def hint(self, members: Iterable[findings.Wanted]) -> None:
        """Let the next step look at these, whosever turn it is."""
        self._hinted.update(one for one in members if one in self.members)

    def step(self, in_turns: bool = True
             ) -> dict[findings.Wanted, findings.Finding]:
        """Members that are new, or whose finding is another one than before.

        :param in_turns: whether to look at those too whose turn it is.
        :raises NeutronUnavailable: the next step sees what this one missed.
        """
        look = {*self._new, *self._hinted,
                *itertools.islice(self._known,
                                  self._per_step if in_turns else 0)}
        if not look:
            return {}
        found = search.find(self._neutron, look)
        self._new.clear()
        self._hinted.clear()
        changed = {member: finding for member, finding in found.items()
                   if self._known.pop(member, None) != finding}
        self._known.update(found)
        return changed
