# SPDX-License-Identifier: Apache-2.0
"""When announcements of VIPs of services with NAT may change."""

from octavia_xdp_provider.agent import peers_wait
from octavia_xdp_provider.node import datapath


class NatServices:
    """The node's services with NAT, used by the worker's thread only.

    :param nat: nat.Nat; None if there are no such services.
    """

    def __init__(self, nat):
        self._nat = nat
        self._keys = set()
        self._udp_idle = {}  # key → idle timeout in seconds
        self._udp_vips = frozenset()
        self._leave_wait = peers_wait.LeaveWait()

    def update(self, planned, keys):
        """:param planned: key → Settings, of services with a new plan.
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
            self._nat.seeking.longest(self._udp_idle.values())

    def waiting_for_peers(self, held):
        """Return the keys of services whose VIPs must not be announced yet.

        :param held: VIPs that are announced.
        """
        if not self._keys or self._nat.wait.is_over:
            return frozenset()
        new = {key for key in self._keys if key.address not in held}
        return frozenset() if not new or self._nat.wait.ends() else new

    def waiting_to_leave(self, held, leaving):
        """Return the VIPs whose announcements must not change yet, because
        other nodes do not ask their peers for unknown UDP flows yet.

        :param held: VIPs that are announced.
        :param leaving: VIPs that are to be a last resort or withdrawn.
        """
        if not self._udp_vips or not self._nat.has_others:
            return frozenset()
        return self._leave_wait.wait_for(
            self._udp_vips & leaving & held.keys())

    def moves(self, vips):
        """Prepare for routers that move flows of these VIPs here."""
        if not self._udp_vips.isdisjoint(vips):
            self._nat.seek_udp()
