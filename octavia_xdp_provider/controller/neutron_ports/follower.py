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
    """Follows members that its caller names with each step."""

    def __init__(self, neutron: client.Neutron, per_step: int = PER_STEP
                 ) -> None:
        self._neutron = neutron
        self._per_step = per_step
        # In the order in which they were looked at, the longest ago first.
        self._known: dict[findings.Wanted, findings.Finding] = {}
        self._hinted: set[findings.Wanted] = set()

    def hint(self, members: Iterable[findings.Wanted]) -> None:
        """Let the next step look at these, whosever turn it is."""
        self._hinted.update(members)

    def step(self, wanted: Iterable[findings.Wanted],
             in_turns: bool = True
             ) -> dict[findings.Wanted, findings.Finding]:
        """Members that are new, or whose finding is another one than before.

        :param in_turns: whether to look at those too whose turn it is.
        :raises NeutronUnavailable: the next step sees what this one missed.
        """
        members = set(wanted)
        for gone in self._known.keys() - members:
            del self._known[gone]
        look = {*(members - self._known.keys()), *(self._hinted & members),
                *itertools.islice(self._known,
                                  self._per_step if in_turns else 0)}
        if not look:
            return {}
        found = search.find(self._neutron, look)
        self._hinted.clear()
        changed = {member: finding for member, finding in found.items()
                   if self._known.pop(member, None) != finding}
        self._known.update(found)
        return changed
