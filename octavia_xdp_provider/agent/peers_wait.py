# SPDX-License-Identifier: Apache-2.0
"""When announcements of VIPs with NAT may change, which moves their flows.

When a node starts to announce, routers move connections to it. It must have
the list of the nodes that hold them, or it could only reset them. The other
nodes must have it on their lists as well, since the next change of routes may
move connections that began on it to them.

When a node leaves on purpose, routers move UDP flows to nodes that ask their
peers for unknown UDP flows only while they are informed of the move.
"""

from collections.abc import Callable
from collections.abc import Set
import time

from oslo_log import log as logging

from octavia_xdp_provider.api import nat

LOG = logging.getLogger(__name__)

# Longest wait for the list of peers, which may never arrive: no controller
# answers, or this node is not among those that hand packets on.
WAIT_S = 30.0
# From the arrival of the list until all other nodes have it as well.
OTHERS_S = nat.OTHERS_S


class PeersWait:
    """Delays the first announcements; used by the worker's thread only.

    :param is_over: whether there is nothing to wait for.
    :param gave_up: called when the wait ends without a list of peers.
    """

    def __init__(self, is_over: bool, gave_up: Callable[[], None]) -> None:
        self.is_over = is_over
        self._gave_up = gave_up
        self._until: float | None = None     # monotonic
        self._found_at: float | None = None  # monotonic

    def found(self, number: int) -> None:
        """Note that a list of so many nodes, this one included, is there."""
        if self._found_at is None:
            self._found_at = time.monotonic()
        if number == 1:
            self.is_over = True

    def ends(self) -> bool:
        """Start waiting if necessary; return whether VIPs may be announced."""
        if self.is_over:
            return True
        now = time.monotonic()
        if self._until is None:
            LOG.info('VIPs with NAT are announced once all nodes with NAT '
                     'have the new list of peers, or in %s s.', WAIT_S)
            self._until = now + WAIT_S
        if self._found_at is not None:
            self.is_over = now >= self._found_at + OTHERS_S
        elif now >= self._until:
            LOG.warning('VIPs with NAT are announced although this node has '
                        'no list of peers: connections that routers move '
                        'here are reset.')
            self._gave_up()
            self.is_over = True
        return self.is_over


class LeaveWait:
    """Delays planned drains and withdrawals of VIPs.

    Waits do not survive a restart of the agent. A VIP waits once: after its
    drain it is withdrawn without another wait.
    """

    def __init__(self) -> None:
        self._since: dict[str, float] = {}  # VIP → monotonic start of its wait

    def wait_for(self, vips: Set[str]) -> frozenset[str]:
        """Return those of the VIPs whose announcements must not change yet.

        :param vips: all VIPs that are to be a last resort or withdrawn.
        """
        now = time.monotonic()
        self._since = {vip: self._since.get(vip, now) for vip in vips}
        return frozenset(vip for vip, since in self._since.items()
                         if now < since + OTHERS_S)
