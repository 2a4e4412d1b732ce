# SPDX-License-Identifier: Apache-2.0
"""When announcements of VIPs of services with NAT may change."""

from collections.abc import Mapping
from collections.abc import Set
from typing import Any

from octavia_xdp_provider.agent import nat as agent_nat
from octavia_xdp_provider.agent import peers_wait
from octavia_xdp_provider.node import datapath


class NatServices:
    """The node's services with NAT, used by the worker's thread only.

    :param nat: None if there are no such services.
    """

    def __init__(self, nat: agent_nat.Nat | None) -> None:
        self._nat = nat
        self._keys: set[datapath.Key] = set()
        # key → idle timeout in seconds
        self._udp_idle: dict[datapath.Key, int] = {}
        self._udp_vips: frozenset[str] = frozenset()
        self._leave_wait = peers_wait.LeaveWait()

    def update(self, planned: Mapping[datapath.Key, datapath.Settings],
               keys: Set[datapath.Key]) -> None:
        """:param planned: settings of services with a new plan.
        :param keys: keys of all planned services.
        """
        for key, settings in planned.items():
            if not settings.flags & datapath.ServiceFlag.NAT:
                self._keys.discard(key)
                self._udp_idle.pop(key, None)
                continue
            self._keys.add(key)
            if key.protocol == 'UDP':
                self._udp_idle[key] = settings.idle_timeout_s
        for key in self._keys - keys:
            self._keys.discard(key)
            self._udp_idle.pop(key, None)
        self._udp_vips = frozenset(key.address for key in self._udp_idle)
        if self._nat:
            self._nat.peers.seeking.longest(self._udp_idle.values())

    def waiting_for_peers(self, held: Mapping[str, Any]) -> Set[datapath.Key]:
        """Return the keys of services whose VIPs must not be announced yet.

        :param held: VIPs that are announced.
        """
        if not self._nat or not self._keys or self._nat.peers.wait.is_over:
            return frozenset()
        new = {key for key in self._keys if key.address not in held}
        return frozenset() if not new or self._nat.peers.wait.ends() else new

    def waiting_to_leave(self, held: Mapping[str, Any], leaving: Set[str]
                         ) -> frozenset[str]:
        """Return the VIPs whose announcements must not change yet, because
        other nodes do not ask their peers for unknown UDP flows yet.

        :param held: VIPs that are announced.
        :param leaving: VIPs that are to be a last resort or withdrawn.
        """
        if not (self._nat and self._udp_vips and self._nat.peers.has_others):
            return frozenset()
        return self._leave_wait.wait_for(
            self._udp_vips & leaving & held.keys())

    def moves(self, vips: Set[str]) -> None:
        """Prepare for routers that move flows of these VIPs here."""
        if self._nat and not self._udp_vips.isdisjoint(vips):
            self._nat.peers.seek_udp()
