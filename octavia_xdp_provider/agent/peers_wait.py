# SPDX-License-Identifier: Apache-2.0
"""When announcements of VIPs of NAT may change, which moves their flows.

Routers that see a node that has just started move connections to it. It has
to know the nodes that have them: by itself it could only reset them. And these
have to know it, as the next move may take connections that began at it to
them.

Routers that see a node leave by plan move UDP flows to nodes that do not ask
for these unless they know that somebody leaves.
"""

import time

from oslo_log import log as logging

from octavia_xdp_provider.common import nat

LOG = logging.getLogger(__name__)

# What is not known by then may never be: no controller answers, or this node
# is not among those that hand packets on to each other.
WAIT_S = 30.0
# Once it knows them, until all of them know it.
OTHERS_S = nat.OTHERS_S


class PeersWait:
    """Belongs to the worker's thread.

    :param is_over: whether there is nothing to wait for.
    :param gave_up: called when the peers were waited for in vain.
    """

    def __init__(self, is_over, gave_up):
        self.is_over = is_over
        self._gave_up = gave_up
        self._until = None  # monotonic, as is the other one
        self._found_at = None

    def found(self, number):
        """So many peers are known, this node among them."""
        if self._found_at is None:
            self._found_at = time.monotonic()
        if number == 1:
            self.is_over = True

    def ends(self):
        """Whether VIPs, which are there, may be announced now."""
        if self.is_over:
            return True
        now = time.monotonic()
        if self._until is None:
            LOG.info('VIPs of NAT are announced once this node and the '
                     'others that do it know each other, or in %s s.', WAIT_S)
            self._until = now + WAIT_S
        if self._found_at is not None:
            self.is_over = now >= self._found_at + OTHERS_S
        elif now >= self._until:
            LOG.warning('VIPs of NAT are announced although it is not known '
                        'which other nodes have their connections: those '
                        'that routers move to this node are reset.')
            self._gave_up()
            self.is_over = True
        return self.is_over


class LeaveWait:
    """VIPs that shall be announced less by plan, and are not yet.

    It begins anew with the agent. A wait that is over is none for what comes
    after: a VIP that is a last resort is withdrawn at once.
    """

    def __init__(self):
        self._since = {}  # VIP → monotonic

    def wait_for(self, vips):
        """Those of these VIPs whose announcements stay as they are.

        :param vips: all that shall be a last resort or withdrawn.
        """
        now = time.monotonic()
        self._since = {vip: self._since.get(vip, now) for vip in vips}
        return frozenset(vip for vip, since in self._since.items()
                         if now < since + OTHERS_S)
