# SPDX-License-Identifier: Apache-2.0
"""Which members' ports are moving to another hypervisor, or have just moved.

Neutron announces a move until the binding has moved. LB nodes follow then,
and the VM cannot be reached before: its patience lasts for a while after the
announcement. Nothing is stored for that: the documents of load balancers say
which members have patience, and a leader that finds one there for which
nothing is announced lets it end as if the binding had moved just now.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import math
import time

from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.zero_touch import decision

# Seconds for which a migration is looked at in each step; one that was given
# up may be noted in Neutron for ever.
FOLLOWED_S = 600.0


class Moves:
    """Belongs to one thread.

    :param patience_s: [zero_touch] migration_patience.
    """

    def __init__(self, patience_s: int,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._patience_s = patience_s
        self._clock = clock
        self._seen: dict[findings.Wanted, float] = {}  # since when
        # When its patience ends; math.inf while it is announced.
        self._ends: dict[findings.Wanted, float] = {}

    def note(self, changed: Mapping[findings.Wanted, findings.Finding]
             ) -> None:
        """Take what Neutron has now of some members."""
        now = self._clock()
        for one, finding in changed.items():
            port = finding.port
            if port and port.migrating_to not in (None, port.host):
                self._seen[one] = now
                self._ends[one] = math.inf
            elif finding.obstacle not in decision.PASSING:
                # Without a binding, say, it is about to have another one.
                self._seen.pop(one, None)
                if self._ends.get(one) == math.inf:
                    self._ends[one] = now + self._patience_s

    def adopt(self, members: Iterable[findings.Wanted]) -> None:
        """Members that an earlier leader has given patience."""
        end = self._clock() + self._patience_s
        for one in members:
            self._ends.setdefault(one, end)

    def forget(self, members: Iterable[findings.Wanted]) -> None:
        for one in members:
            self._seen.pop(one, None)
            self._ends.pop(one, None)

    def followed(self) -> list[findings.Wanted]:
        """Members to look at in each step: where a VM is on its way, LB nodes
        follow it at once."""
        end = self._clock() - FOLLOWED_S
        self._seen = {one: since for one, since in self._seen.items()
                      if since > end}
        return list(self._seen)

    def take_over(self) -> set[findings.Wanted]:
        """Members whose patience is over since the last call."""
        now = self._clock()
        over = {one for one, end in self._ends.items() if end <= now}
        for one in over:
            del self._ends[one]
        return over

    def patience(self, document: spec.Document) -> dict[str, int]:
        """Seconds, by id of the members that have some."""
        if not self._ends or not self._patience_s:
            return {}
        return {key: self._patience_s for pool in document['pools'].values()
                for key, member in pool['members'].items()
                if decision.wanted(document, member) in self._ends}
