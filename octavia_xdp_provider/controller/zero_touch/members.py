# SPDX-License-Identifier: Apache-2.0
"""The members that are looked up in Neutron, with the findings.

Members are indexed by load balancer, hypervisor and port, so that the cost of
a change depends on the members that it concerns.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.zero_touch import index


class Members:
    """The members of all load balancers.

    :ivar found: finding of each member that was looked up.
    """

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
        """Set the members of a load balancer; none if it is gone.

        :returns: the members that no load balancer has any more.
        """
        before = self._of.pop(balancer_id, frozenset())
        after = frozenset(members)
        if after:
            self._of[balancer_id] = after
        for member in after - before:
            self._balancers.add(member, balancer_id)
        for member in before - after:
            self._balancers.discard(member, balancer_id)
        gone = {member for member in before - after
                if not self._balancers.names(member)}
        for member in gone:
            self._forget(member)
        return gone

    def put_found(self, found: Mapping[findings.Wanted, findings.Finding]
                  ) -> None:
        for member, finding in found.items():
            self._forget(member)
            self.found[member] = finding
            if finding.port is not None:
                self._by_host.add(finding.port.host, member)
                self._by_port.add(finding.port.id, member)

    def _forget(self, member: findings.Wanted) -> None:
        finding = self.found.pop(member, None)
        if finding is not None and finding.port is not None:
            self._by_host.discard(finding.port.host, member)
            self._by_port.discard(finding.port.id, member)

    def balancers_of(self, members: Iterable[findings.Wanted]) -> set[str]:
        return {key for member in members
                for key in self._balancers.names(member)}

    def balancers_on(self, hosts: Iterable[str]) -> set[str]:
        """Return the load balancers with members whose ports are bound to one
        of these hypervisors."""
        return self.balancers_of(member for host in hosts
                                 for member in self._by_host.names(host))

    def of_port(self, port_id: str) -> dict[findings.Wanted, findings.Port]:
        """Return the members that have a port, each with its Port."""
        ports = {}
        for member in self._by_port.names(port_id):
            port = self.found[member].port
            assert port is not None
            ports[member] = port
        return ports
