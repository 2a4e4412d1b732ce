# SPDX-License-Identifier: Apache-2.0
"""Selects those of Neutron's notifications that concern members.

A busy cloud sends many notifications a second. Those that concern none of the
leader's members are dropped here and wake no thread.
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
    """The members that notifications concern. Thread-safe.

    :param wake: called when take() has something to return.
    """

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self.ignore()

    def ignore(self) -> None:
        """Drop all notifications from now on, as another controller leads."""
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
        """Return whether notifications are selected at all."""
        return bool(self._wanted)

    def watch(self, found: Mapping[findings.Wanted, findings.Finding],
              sets: Iterable[str]) -> None:
        """Select notifications of these members and groups.

        :param sets: ids of the groups that security group rules name.
        """
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

    def handle(self, hint: notifications.Hint) -> None:
        with self._lock:
            members = self._about(hint)
            sets = self._sets & hint.groups
            if not members and not sets:
                return
            self._members |= members
            self._changed_sets |= sets
        self._wake()

    def _about(self, hint: notifications.Hint) -> set[findings.Wanted]:
        members: set[findings.Wanted] = set()
        for port in hint.ports:
            members |= self._ports.get(port, set())
        for address in hint.addresses:
            members |= self._addresses.get(_normal(address), set())
        if not hint.ports:
            # The group itself has changed, and not one of its ports.
            for group in hint.groups:
                members |= self._groups.get(group, set())
        return members

    def take(self) -> tuple[set[findings.Wanted], set[str]]:
        """Return the members, and the groups, to look up again."""
        with self._lock:
            changed = self._members, self._changed_sets
            self._members, self._changed_sets = set(), set()
        return changed


def _normal(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address
