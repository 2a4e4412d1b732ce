# SPDX-License-Identifier: Apache-2.0
"""Which of Neutron's notifications are about members here.

A busy cloud sends many a second; what is about none of the leader's members
ends here, and wakes nobody.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import ipaddress
import threading

from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.neutron_ports import notifications

_Index = dict[str, set[findings.Wanted]]


class Notified:
    """Members that Neutron has said something about. Any thread may use it.

    :param wake: called when there is something to take.
    """

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self.ignore()

    def ignore(self) -> None:
        """Another controller leads."""
        with self._lock:
            self._wanted: frozenset[findings.Wanted] = frozenset()
            self._ports: _Index = {}
            self._addresses: _Index = {}
            self._groups: _Index = {}
            self._sets: frozenset[str] = frozenset()
            self._members: set[findings.Wanted] = set()
            self._changed_sets: set[str] = set()

    @property
    def is_wanted(self) -> bool:
        """Whether anything would be of interest."""
        return bool(self._wanted)

    def watch(self, found: Mapping[findings.Wanted, findings.Finding],
              sets: Iterable[str]) -> None:
        """These members, and groups whose addresses rules name."""
        ports: _Index = {}
        addresses: _Index = {}
        groups: _Index = {}
        for wanted, finding in found.items():
            addresses.setdefault(wanted.address, set()).add(wanted)
            if finding.port is not None:
                ports.setdefault(finding.port.id, set()).add(wanted)
                for group in finding.port.security_group_ids:
                    groups.setdefault(group, set()).add(wanted)
        with self._lock:
            self._wanted = frozenset(found)
            self._ports, self._addresses = ports, addresses
            self._groups, self._sets = groups, frozenset(sets)
            self._members &= self._wanted

    def hear(self, hint: notifications.Hint) -> None:
        with self._lock:
            members = self._about(hint)
            sets = self._sets & hint.groups
            if not members and not sets:
                return
            self._members |= members
            self._changed_sets |= sets
        self._wake()

    def _about(self, hint: notifications.Hint) -> set[findings.Wanted]:
        found: set[findings.Wanted] = set()
        for port in hint.ports:
            found |= self._ports.get(port, set())
        for address in hint.addresses:
            found |= self._addresses.get(_normal(address), set())
        if not hint.ports:
            # What has changed is the group, not a port that is in it.
            for group in hint.groups:
                found |= self._groups.get(group, set())
        return found

    def take(self) -> tuple[set[findings.Wanted], set[str]]:
        """Members, and groups whose addresses are, to be looked at."""
        with self._lock:
            found = self._members, self._changed_sets
            self._members, self._changed_sets = set(), set()
        return found


def _normal(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address
