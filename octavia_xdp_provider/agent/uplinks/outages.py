# SPDX-License-Identifier: Apache-2.0
"""Since when packets of each family can leave this node.

This module does no I/O. It keeps which uplinks worked at the last look, and
which next hops have been probed since.

A next hop may be gone for most of a minute before the kernel removes its MAC
address. So when the health checker asks, the next hops are probed, and an
answer proves that they worked when the probe was sent. A next hop that does
not answer for ``ANSWER_S`` counts as gone until it answers.
"""

from octavia_xdp_provider.agent import uplinks_file
from octavia_xdp_provider.agent.uplinks import state
from octavia_xdp_provider.node import netlink

# Index of the link, and address.
Hop = tuple[int, str]

# The kernel repeats probes after a second: one lost probe is no outage.
ANSWER_S = 1.3


class Outages:
    """Tracks by family since when some uplink has worked.

    :ivar in_use: next hops that can be probed.
    :ivar silent: next hops that have not answered.
    """

    def __init__(self) -> None:
        # Families that an uplink had a next hop for.
        self._expected: set[int] = set()
        # (name, family) → losses of carrier so far.
        self._worked: dict[tuple[str, int], int] = {}
        self._asked: dict[Hop, int] = {}  # time of the probe in ns
        self.silent: set[Hop] = set()
        self.in_use: set[Hop] = set()
        self.families: dict[int, uplinks_file.Family] = {}

    def asked(self, hop: Hop, now_ns: int) -> None:
        """Note that a next hop is being probed."""
        self._asked.setdefault(hop, now_ns)

    @property
    def waits(self) -> bool:
        """Whether a probe of a next hop has not been answered yet."""
        return bool(self._asked)

    def look(self, states: tuple[state.State, ...],
             snapshot: netlink.Snapshot, now_ns: int) -> None:
        """Update ``families``.

        :param snapshot: that the states are derived from.
        :param now_ns: when the look began.
        """
        answered = self._answers(snapshot, now_ns)
        links = {link.name: link for link in snapshot.links.values()}
        worked, self._worked = self._worked, {}
        self.in_use = set()
        for family in (4, 6):
            continuous = False
            evidence: list[int] = []
            for uplink in states:
                if uplink.hop(family).address or family in (
                        uplink.forwards or ()):
                    self._expected.add(family)
                if not uplink.carries(family):
                    continue
                link = links[uplink.name]
                hop = link.index, uplink.hop(family).address or ''
                if hop in self.silent:
                    continue
                self._note_in_use(hop, snapshot)
                losses = link.carrier_losses
                continuous |= worked.get((uplink.name, family)) == losses
                self._worked[uplink.name, family] = losses
                evidence.append(now_ns if uplink.forwards is not None
                                else self._known_until(
                                    hop, answered, snapshot, now_ns))
            self._update_family(family, states, evidence, continuous, now_ns)

    def _note_in_use(self, hop: Hop, snapshot: netlink.Snapshot) -> None:
        neighbour = snapshot.neighbours.get(hop)
        if neighbour and not neighbour.permanent:
            self.in_use.add(hop)

    def _answers(self, snapshot: netlink.Snapshot, now_ns: int
                 ) -> dict[Hop, int]:
        """Return the times of the probes that next hops have answered."""
        answered = {}
        for hop, asked_ns in list(self._asked.items()):
            neighbour = snapshot.neighbours.get(hop)
            if neighbour and neighbour.confirmed:
                answered[hop] = asked_ns
                self.silent.discard(hop)
                del self._asked[hop]
            elif now_ns - asked_ns >= ANSWER_S * 1e9:
                self.silent.add(hop)
                del self._asked[hop]
        for hop in list(self.silent):
            neighbour = snapshot.neighbours.get(hop)
            if neighbour and neighbour.confirmed:
                self.silent.discard(hop)
                answered[hop] = now_ns
        return answered

    def _known_until(self, hop: Hop, answered: dict[Hop, int],
                     snapshot: netlink.Snapshot, now_ns: int) -> int:
        if hop in answered:
            return answered[hop]
        if hop in self._asked:
            return 0  # nothing new is known
        neighbour = snapshot.neighbours.get(hop)
        # The kernel does not probe a neighbour with a configured MAC address.
        return now_ns if neighbour and neighbour.permanent else 0

    def _update_family(self, family: int, states: tuple[state.State, ...],
                       evidence: list[int], continuous: bool, now_ns: int
                       ) -> None:
        before = self.families.get(family)
        if evidence:
            as_of_ns = max(evidence)
            if continuous and before and before.since_ns is not None:
                self.families[family] = uplinks_file.Family(
                    max(as_of_ns, before.as_of_ns), before.since_ns)
            else:
                self.families[family] = uplinks_file.Family(now_ns, now_ns)
        elif family in self._expected or (
                states and all(uplink.problem for uplink in states)):
            self.families[family] = uplinks_file.Family(now_ns, None)
        else:
            self.families.pop(family, None)
