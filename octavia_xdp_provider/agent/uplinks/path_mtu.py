# SPDX-License-Identifier: Apache-2.0
"""The MTU of the path to each member, where the kernel knows a smaller one.

Most nodes have no route with an MTU and have learnt none, and then nobody is
asked. Elsewhere the kernel is asked for the members that such a route may
lead to, once until what it knows has changed.
"""

import ipaddress

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_MTU_MAX = 65535


class PathMtu:
    """What ``forwarding.plan`` asks.

    :param kernel: netlink.Kernel of the calling thread.
    :param fixed: for all members, in place of what the kernel knows; 0: not.
    """

    def __init__(self, kernel, fixed=0):
        self._kernel = kernel
        self._fixed = fixed
        self._known = {}  # network → MTU
        self._networks = []  # those of more than one address
        self._cache = {}
        self.version = 0  # another one whenever answers may be others

    def refresh(self):
        """Look whether the kernel knows other MTUs than before."""
        if self._fixed:
            return
        known = self._kernel.route_mtus()
        if known != self._known:
            self._known = known
            self._networks = [network for network in known
                              if network.num_addresses > 1]
            LOG.debug('MTUs of routes: %s.', known)
            self._cache = {}
            self.version += 1

    def of(self, address):
        """Greatest outer packet to an address, bytes; 0: the uplink's."""
        if self._fixed or not self._known:
            return self._fixed
        if address not in self._cache:
            self._cache[address] = self._ask(address)
        return self._cache[address]

    def _ask(self, address):
        parsed = ipaddress.ip_address(address)
        if ipaddress.ip_network(parsed) not in self._known and not any(
                parsed in network for network in self._networks):
            return 0
        try:
            return min(self._kernel.path_mtu(address), _MTU_MAX)
        except OSError as error:
            # Packets go to the uplink's next hop all the same.
            LOG.debug('No route to %s: %s', address, error)
            return 0
