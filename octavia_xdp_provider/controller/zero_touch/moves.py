# SPDX-License-Identifier: Apache-2.0
"""Tracks members whose ports move, or have just moved, to a hypervisor.

Neutron announces a move until the binding has moved. LB nodes follow the
binding, and the VM is unreachable until then, so its patience outlasts the
announcement by a while. Nothing is stored for that beyond the patience in the
documents of load balancers: a new leader that reads member there without an
announcement ends it as if the binding had just moved.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import math
import time

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.zero_touch import decision

# Seconds for which a migration is looked up in each step. Neutron may announce
# an aborted member for ever.
FOLLOWED_S = 600.0


class Moves:
    """The members that are moving. Not thread-safe.

    :param patience_s: [zero_touch] migration_patience.
    """

    def __init__(self, patience_s: int,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._patience_s = patience_s
        self._clock = clock
        # Member → when its migration was announced last.
        self._seen: dict[findings.Wanted, float] = {}
        # Member → end of its patience; math.inf during the announcement.
        self._ends: dict[findings.Wanted, float] = {}

    def note(self, changed: Mapping[findings.Wanted, findings.Finding]
             ) -> None:
        """Note changed findings of members."""
        now = self._clock()
        for member, finding in changed.items():
            port = finding.port
            if port and port.migrating_to not in (None, port.host):
                self._seen[member] = now
                self._ends[member] = math.inf
            elif finding.obstacle not in decision.PASSING:
                # With a passing obstacle, the port may be about to get its
                # new binding.
                self._seen.pop(member, None)
                if self._ends.get(member) == math.inf:
                    self._ends[member] = now + self._patience_s

    def adopt(self, members: Iterable[findings.Wanted]) -> None:
        """Note members to which an earlier leader has given patience."""
        end = self._clock() + self._patience_s
        for member in members:
            self._ends.setdefault(member, end)

    def forget(self, members: Iterable[findings.Wanted]) -> None:
        for member in members:
            self._seen.pop(member, None)
            self._ends.pop(member, None)

    def followed(self) -> list[findings.Wanted]:
        """Return the members to look up in each step, so that LB nodes follow
        a moving VM at once."""
        end = self._clock() - FOLLOWED_S
        self._seen = {member: since for member, since in self._seen.items()
                      if since > end}
        return list(self._seen)

    def take_over(self) -> set[findings.Wanted]:
        """Return the members whose patience has ended since the last call."""
        now = self._clock()
        over = {member for member, end in self._ends.items() if end <= now}
        for member in over:
            del self._ends[member]
        return over

    def patience(self, document: spec.Document) -> dict[str, int]:
        """Return member id → seconds, for the members with patience."""
        if not self._ends or not self._patience_s:
            return {}
        return {key: self._patience_s for pool in document['pools'].values()
                for key, member in pool['members'].items()
                if decision.wanted(document, member) in self._ends}
