# SPDX-License-Identifier: Apache-2.0
"""The members that are looked for, and what was found of each.

Load balancers share members, and hypervisors have some: both are indexed, so
that a change costs what it concerns.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.zero_touch import index


class Members:
    """:ivar found: finding of each member that was looked for."""

    def __init__(self) -> None:
        self.found: dict[findings.Wanted, findings.Finding] = {}
        self._of: dict[str, frozenset[findings.Wanted]] = {}
        self._balancers = index.Index[findings.Wanted, str]()
        self._by_host = index.Index[str, findings.Wanted]()
        self._by_port = index.Index[str, findings.Wanted]()

    def __bool__(self) -> bool:
        return bool(self._of)

    def __iter__(self) -> Iterator[findings.Wanted]:
        return iter(self._balancers.values())

    def replace(self, balancer_id: str, members: Iterable[findings.Wanted]
                ) -> set[findings.Wanted]:
        """Note the members of a load balancer; none: it is gone.

        :returns: members that no load balancer has any more.
        """
        before = self._of.pop(balancer_id, frozenset())
        after = frozenset(members)
        if after:
            self._of[balancer_id] = after
        for one in after - before:
            self._balancers.add(one, balancer_id)
        for one in before - after:
            self._balancers.discard(one, balancer_id)
        gone = {one for one in before - after
                if not self._balancers.names(one)}
        for one in gone:
            self._forget(one)
        return gone

    def put_found(self, found: Mapping[findings.Wanted, findings.Finding]
                  ) -> None:
        for one, finding in found.items():
            self._forget(one)
            self.found[one] = finding
            if finding.port is not None:
                self._by_host.add(finding.port.host, one)
                self._by_port.add(finding.port.id, one)

    def _forget(self, one: findings.Wanted) -> None:
        finding = self.found.pop(one, None)
        if finding is not None and finding.port is not None:
            self._by_host.discard(finding.port.host, one)
            self._by_port.discard(finding.port.id, one)

    def balancers_of(self, members: Iterable[findings.Wanted]) -> set[str]:
        return {key for one in members
                for key in self._balancers.names(one)}

    def balancers_on(self, hosts: Iterable[str]) -> set[str]:
        """Load balancers with members whose ports are bound to one of these
        hypervisors."""
        return self.balancers_of(one for host in hosts
                                 for one in self._by_host.names(host))

    def of_port(self, port_id: str) -> dict[findings.Wanted, findings.Port]:
        found = {}
        for one in self._by_port.names(port_id):
            port = self.found[one].port
            assert port is not None
            found[one] = port
        return found
