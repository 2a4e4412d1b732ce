# SPDX-License-Identifier: Apache-2.0
"""The node's services by NAT: when announcements of their VIPs may change."""

from octavia_xdp_provider.agent import peers_wait
from octavia_xdp_provider.node import datapath


class NatServices:
    """Belongs to the worker's thread.

    :param nat: nat.Nat, or None: there are no such services.
    """

    def __init__(self, nat):
        self._nat = nat
        self._keys = set()
        self._udp_idle = {}  # key → for how long a flow may be silent
        self._udp_vips = frozenset()
        self._leave_wait = peers_wait.LeaveWait()

    def update(self, planned, keys):
        """:param planned: key → Settings of services with a new plan.
        :param keys: of all that are planned.
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
        """Keys of services whose VIPs are not announced, nor shall be yet.

        :param held: VIPs that are announced.
        """
        if not self._keys or self._nat.wait.is_over:
            return frozenset()
        new = {key for key in self._keys if key.address not in held}
        return frozenset() if not new or self._nat.wait.ends() else new

    def waiting_to_leave(self, held, leaving):
        """VIPs that are announced as they are for now, since other nodes do
        not seek their UDP flows yet.

        :param held: VIPs that are announced.
        :param leaving: VIPs that shall be a last resort or withdrawn.
        """
        if not self._udp_vips or not self._nat.has_others:
            return frozenset()
        return self._leave_wait.wait_for(
            self._udp_vips & leaving & held.keys())

    def moves(self, vips):
        """Before routers move flows of these VIPs to this node."""
        if not self._udp_vips.isdisjoint(vips):
            self._nat.seek_udp()
