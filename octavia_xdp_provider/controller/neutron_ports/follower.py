# SPDX-License-Identifier: Apache-2.0
"""Polls members' ports, so that a change that was missed is noticed later.

Neutron does not list changes: its filter ``changed_since`` is refused if
filters are validated, as they are by default, and does not show deletions. So
each step looks up some members: first new ones and those with a hint of a
change, then those whose look-up was longest ago. Projects take turns in both
(turns.py).
"""

from collections.abc import Callable
from collections.abc import Iterable
import time

from octavia_xdp_provider.controller.neutron_ports import client
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.neutron_ports import search
from octavia_xdp_provider.controller.neutron_ports import turns

# Members that one periodic step looks up: some six requests.
PER_STEP = 200
# New members and hints that one step looks up: a second or two.
AT_ONCE = 1000


class Follower:
    """Looks up members again and again.

    :ivar members: the members that it looks up.
    """

    def __init__(self, neutron: client.Neutron, per_step: int = PER_STEP,
                 at_once: int = AT_ONCE,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._neutron = neutron
        self._per_step, self._at_once = per_step, at_once
        self.members: set[findings.Wanted] = set()
        self._known: dict[findings.Wanted, findings.Finding] = {}
        self._urgent = turns.Turns(clock)  # new, or with a hint
        self._turns = turns.Turns()

    def follow(self, members: Iterable[findings.Wanted]) -> None:
        """Look up these members from the next step on."""
        new = set(members) - self.members
        self.members |= new
        for member in new:
            self._urgent.add(member)

    def leave(self, members: Iterable[findings.Wanted]) -> None:
        """Do not look up these members any more."""
        for member in members:
            self.members.discard(member)
            self._urgent.discard(member)
            self._turns.discard(member)
            self._known.pop(member, None)

    def hint(self, members: Iterable[findings.Wanted]) -> None:
        """Look up these members in the next steps, before others."""
        for member in self.members.intersection(members):
            self._urgent.add(member)

    def waiting(self) -> tuple[int, float]:
        """Return the number of new members and hints that are still to be
        looked up, and the seconds for which the first has waited."""
        return self._urgent.waiting()

    def step(self, in_turns: bool = True
             ) -> dict[findings.Wanted, findings.Finding]:
        """Look up some members and return the new or changed findings.

        :param in_turns: whether to look up members periodically as well.
        :raises NeutronUnavailable: the next step repeats the look-up.
        """
        urgent = set(self._urgent.next(self._at_once))
        due = {*urgent, *self._turns.next(self._per_step if in_turns else 0)}
        if not due:
            return {}
        findings = search.find(self._neutron, due)
        for member in due:
            self._urgent.discard(member)
            self._turns.discard(member)
            self._turns.add(member)
        changed = {member: finding for member, finding in findings.items()
                   if self._known.get(member) != finding}
        self._known.update(findings)
        return changed
