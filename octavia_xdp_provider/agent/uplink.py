# SPDX-License-Identifier: Apache-2.0
"""The node's uplink as the kernel knows it: addresses, MTU, next hop."""

import contextlib
import socket
import typing

from oslo_log import log as logging
import pyroute2
from pyroute2.netlink.rtnl import ndmsg

LOG = logging.getLogger(__name__)

# UDP "discard" (RFC 863): the datagram only makes the kernel resolve the
# gateway's address.
DISCARD_PORT = 9

_USABLE = (ndmsg.NUD_REACHABLE | ndmsg.NUD_STALE | ndmsg.NUD_DELAY
           | ndmsg.NUD_PROBE | ndmsg.NUD_PERMANENT | ndmsg.NUD_NOARP)


class UplinkError(Exception):
    """The uplink cannot be used as it is."""


class State(typing.NamedTuple):
    """``gateway_mac`` is None as long as the gateway has not answered."""

    ifindex: int
    mac: str
    mtu: int
    source: str
    gateway: str
    gateway_mac: str | None


class Uplink:
    """Reads the uplink's state through netlink."""

    def __init__(self, name, outer_source=None):
        self._name = name
        self._outer_source = outer_source
        self._netlink = pyroute2.IPRoute()

    def own_addresses(self):
        """Every address of this node, as texts."""
        return frozenset(message.get_attr('IFA_ADDRESS')
                         for message in self._netlink.get_addr())

    def state(self):
        """The present state.

        :raises UplinkError: interface, address or default route missing.
        """
        found = self._netlink.link_lookup(ifname=self._name)
        if not found:
            raise UplinkError(f'there is no interface {self._name}')
        ifindex = found[0]
        link = self._netlink.get_links(ifindex)[0]
        gateway = self._gateway(ifindex)
        return State(ifindex, link.get_attr('IFLA_ADDRESS'),
                     link.get_attr('IFLA_MTU'),
                     self._outer_source or self._first_address(ifindex),
                     gateway, self._neighbour(ifindex, gateway))

    def _first_address(self, ifindex):
        for message in self._netlink.get_addr(family=socket.AF_INET,
                                              index=ifindex):
            return message.get_attr('IFA_LOCAL')
        raise UplinkError(f'{self._name} has no IPv4 address')

    def _gateway(self, ifindex):
        for route in self._netlink.get_routes(family=socket.AF_INET):
            if (route['dst_len'] == 0
                    and route.get_attr('RTA_OIF') == ifindex
                    and route.get_attr('RTA_GATEWAY')):
                return route.get_attr('RTA_GATEWAY')
        raise UplinkError(f'{self._name} has no default route')

    def _neighbour(self, ifindex, gateway):
        for entry in self._netlink.get_neighbours(
                family=socket.AF_INET, ifindex=ifindex):
            if (entry.get_attr('NDA_DST') == gateway
                    and entry['state'] & _USABLE):
                return entry.get_attr('NDA_LLADDR')
        self._resolve(gateway)
        return None

    @staticmethod
    def _resolve(gateway):
        with contextlib.suppress(OSError), socket.socket(
                socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(b'', (gateway, DISCARD_PORT))
