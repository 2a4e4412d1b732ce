# SPDX-License-Identifier: Apache-2.0
"""Members' ports, followed: whatever is missed once is seen later.

Neutron cannot be asked what has changed: its filter ``changed_since`` is
refused where filters are validated, as they are by default, and does not show
what was deleted. So each step looks at some members, those first whose turn
was longest ago, and before them at those that are new or of which somebody
says that they have changed. Projects share each of these turns (turns.py).
"""

from collections.abc import Iterable

from octavia_xdp_provider.controller.neutron_ports import client
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.neutron_ports import search
from octavia_xdp_provider.controller.neutron_ports import turns

# Members that one step looks at without a hint: some six requests.
PER_STEP = 200
# Of those that are new, or of which there is a hint: a second or two.
AT_ONCE = 1000


class Follower:
    """Follows members, from the moment on at which its caller names them.

    :ivar members: those that it follows.
    """

    def __init__(self, neutron: client.Neutron, per_step: int = PER_STEP,
                 at_once: int = AT_ONCE) -> None:
        self._neutron = neutron
        self._per_step, self._at_once = per_step, at_once
        self.members: set[findings.Wanted] = set()
        self._known: dict[findings.Wanted, findings.Finding] = {}
        self._urgent = turns.Turns()  # new, or with a hint
        self._turns = turns.Turns()

    def follow(self, members: Iterable[findings.Wanted]) -> None:
        """Look for these from the next step on."""
        new = set(members) - self.members
        self.members |= new
        for member in new:
            self._urgent.add(member)

    def leave(self, members: Iterable[findings.Wanted]) -> None:
        """Do not look for these any more."""
        for member in members:
            self.members.discard(member)
            self._urgent.discard(member)
            self._turns.discard(member)
            self._known.pop(member, None)

    def hint(self, members: Iterable[findings.Wanted]) -> None:
        """Let the next steps look at these, whosever turn it is."""
        for member in self.members.intersection(members):
            self._urgent.add(member)

    def step(self, in_turns: bool = True
             ) -> dict[findings.Wanted, findings.Finding]:
        """Members that are new, or whose finding is another one than before.

        :param in_turns: whether to look at those too whose turn it is.
        :raises NeutronUnavailable: the next step sees what this one missed.
        """
        urgent = set(self._urgent.next(self._at_once))
        look = {*urgent, *self._turns.next(self._per_step if in_turns else 0)}
        if not look:
            return {}
        found = search.find(self._neutron, look)
        for member in look:
            self._urgent.discard(member)
            self._turns.discard(member)
            self._turns.add(member)
        changed = {member: finding for member, finding in found.items()
                   if self._known.get(member) != finding}
        self._known.update(found)
        return changed
