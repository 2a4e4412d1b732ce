# SPDX-License-Identifier: Apache-2.0
"""The MTU of the path to each member, if the kernel has a smaller one.

Most nodes have no route with an MTU, configured or learnt, and then no lookup
is needed. Otherwise the kernel is asked once for each member that such a
route may lead to, until the routes' MTUs change.
"""

import ipaddress

from oslo_log import log as logging

from octavia_xdp_provider.contracts.address_policy import Network
from octavia_xdp_provider.node import netlink

LOG = logging.getLogger(__name__)

_MTU_MAX = 65535


class PathMtu:
    """Caches path MTUs for ``forwarding.plan``.

    :param kernel: netlink.Kernel of the calling thread.
    :param fixed: MTU for all members in place of the kernel's; 0: none.
    """

    def __init__(self, kernel: netlink.Kernel, fixed: int = 0) -> None:
        self._kernel = kernel
        self._fixed = fixed
        self._known: dict[Network, int] = {}
        # Those with more than one address.
        self._networks: list[Network] = []
        self._cache: dict[str, int] = {}
        self.version = 0  # changes whenever results of ``of`` may change

    def refresh(self) -> None:
        """Read the MTUs of routes, and drop the cache if they changed."""
        if self._fixed:
            return
        mtus = self._kernel.route_mtus()
        if mtus != self._known:
            self._known = mtus
            self._networks = [network for network in mtus
                              if network.num_addresses > 1]
            LOG.debug('MTUs of routes: %s.', mtus)
            self._cache = {}
            self.version += 1

    def of(self, address: str) -> int:
        """Return the greatest outer packet in bytes, or 0: the uplink's."""
        if self._fixed or not self._known:
            return self._fixed
        if address not in self._cache:
            self._cache[address] = self._look_up(address)
        return self._cache[address]

    def _look_up(self, address: str) -> int:
        parsed = ipaddress.ip_address(address)
        if ipaddress.ip_network(parsed) not in self._known and not any(
                parsed in network for network in self._networks):
            return 0
        try:
            return min(self._kernel.path_mtu(address), _MTU_MAX)
        except OSError as error:
            # Packets go to the uplink's next hop even without a route.
            LOG.debug('No route to %s: %s', address, error)
            return 0
