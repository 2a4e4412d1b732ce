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

# The kernel repeats probes after a second: one lost probe is no outage.
ANSWER_S = 1.3


class Outages:
    """Tracks by family since when some uplink has worked."""

    def __init__(self):
        self._expected = set()  # families that an uplink had a next hop for
        self._worked = {}       # (name, family) → losses of carrier so far
        self._asked = {}        # (link, address) → time of the probe in ns
        self._silent = set()    # (link, address) without an answer
        self._in_use = set()    # (link, address)
        self.families = {}      # family → uplinks_file.Family

    def asked(self, hop, now_ns):
        """Note that a next hop (link, address) is being probed."""
        self._asked.setdefault(hop, now_ns)

    @property
    def in_use(self):
        """Next hops (link, address) that can be probed."""
        return frozenset(self._in_use)

    @property
    def silent(self):
        """Next hops (link, address) that have not answered."""
        return frozenset(self._silent)

    @property
    def waits(self):
        """Whether a probe of a next hop has not been answered yet."""
        return bool(self._asked)

    def look(self, states, snapshot, now_ns):
        """Update ``families``.

        :param states: tuple of state.State.
        :param snapshot: the netlink.Snapshot that they are derived from.
        :param now_ns: when the look began.
        """
        answered = self._answers(snapshot, now_ns)
        links = {link.name: link for link in snapshot.links.values()}
        worked, self._worked = self._worked, {}
        self._in_use = set()
        for family in (4, 6):
            continuous, evidence = False, []
            for uplink in states:
                if uplink.hop(family).address or family in (
                        uplink.forwards or ()):
                    self._expected.add(family)
                if not uplink.carries(family):
                    continue
                link = links[uplink.name]
                hop = (link.index, uplink.hop(family).address)
                if hop in self._silent:
                    continue
                self._note_in_use(hop, snapshot)
                losses = link.carrier_losses
                continuous |= worked.get((uplink.name, family)) == losses
                self._worked[uplink.name, family] = losses
                evidence.append(now_ns if uplink.forwards is not None
                                else self._known_until(
                                    hop, answered, snapshot, now_ns))
            self._update_family(family, states, evidence, continuous, now_ns)

    def _note_in_use(self, hop, snapshot):
        neighbour = snapshot.neighbours.get(hop)
        if neighbour and not neighbour.permanent:
            self._in_use.add(hop)

    def _answers(self, snapshot, now_ns):
        """Return (link, address) → time of the probe, for next hops that
        have answered."""
        answered = {}
        for hop, asked_ns in list(self._asked.items()):
            neighbour = snapshot.neighbours.get(hop)
            if neighbour and neighbour.confirmed:
                answered[hop] = asked_ns
                self._silent.discard(hop)
                del self._asked[hop]
            elif now_ns - asked_ns >= ANSWER_S * 1e9:
                self._silent.add(hop)
                del self._asked[hop]
        for hop in list(self._silent):
            neighbour = snapshot.neighbours.get(hop)
            if neighbour and neighbour.confirmed:
                self._silent.discard(hop)
                answered[hop] = now_ns
        return answered

    def _known_until(self, hop, answered, snapshot, now_ns):
        if hop in answered:
            return answered[hop]
        if hop in self._asked:
            return 0  # nothing new is known
        neighbour = snapshot.neighbours.get(hop)
        # The kernel does not probe a neighbour with a configured MAC address.
        return now_ns if neighbour and neighbour.permanent else 0

    def _update_family(self, family, states, evidence, continuous, now_ns):
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
