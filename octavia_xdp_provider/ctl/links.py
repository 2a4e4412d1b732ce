# SPDX-License-Identifier: Apache-2.0
"""The kernel's state of interfaces, neighbours and times."""

import datetime
import time
import typing
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.rtnl import ndmsg

from octavia_xdp_provider.node import netlink

# pyroute2's names of linux/if_link.h's XDP_ATTACHED_*.
_MODES = {'xdp': 'driver', 'xdpgeneric': 'generic',
          'xdpoffload': 'offloaded', 'xdpmulti': 'several'}
_STATISTICS = '/proc/sys/kernel/bpf_stats_enabled'


class Neighbour(typing.NamedTuple):
    address: str
    state: str
    interface: str


class Links:
    """A snapshot of the kernel's links and neighbours."""

    def __init__(self) -> None:
        with IPRoute() as route:
            messages = list(route.get_links())
            self._neighbours = [
                (version, message) for version, family in
                netlink.FAMILIES.items()
                for message in route.get_neighbours(family=family)]
        self._names: dict[int, str] = {
            message['index']: message.get_attr('IFLA_IFNAME')
                       for message in messages}
        self._lower: dict[int | None, int | None] = {
            message['index']: message.get_attr('IFLA_LINK')
                       for message in messages}
        self._xdp: dict[int, Any] = {
            message['index']: message.get_attr('IFLA_XDP')
                     for message in messages}

    def name(self, ifindex: int) -> str:
        """Return an interface's name; its index if it is gone."""
        return self._names.get(ifindex) or f'#{ifindex}'

    def index(self, name: str) -> int | None:
        """Return the index of an interface, or None."""
        for index, interface in self._names.items():
            if interface == name:
                return index
        return None

    def xdp_mode(self, ifindex: int, program: int) -> str | None:
        """Return how a program is attached; None if it is not, for example
        because another namespace has the interface."""
        xdp = self._xdp.get(ifindex)
        if not xdp or xdp.get_attr('IFLA_XDP_PROG_ID') != program:
            return None
        return _MODES.get(xdp.get_attr('IFLA_XDP_ATTACHED'))

    def neighbours(self, ifindex: int, version: int, mac: str | None
                   ) -> list[Neighbour]:
        """Return entries with this MAC on the device or a VLAN of it."""
        if not mac:
            return []
        return [Neighbour(message.get_attr('NDA_DST'),
                          state_name(message['state']),
                          self.name(message['ifindex']))
                for family, message in self._neighbours
                if family == version
                and message.get_attr('NDA_LLADDR') == mac
                and self._is_over(message['ifindex'], ifindex)]

    def _is_over(self, upper: int | None, ifindex: int) -> bool:
        for _device in range(3):
            if upper == ifindex:
                return True
            upper = self._lower.get(upper)
        return False


def state_name(state: int) -> str:
    """Return the name of a neighbour's state."""
    for name, bit in ndmsg.states.items():
        if state & bit:
            return str(name)
    return 'none'


def statistics_enabled() -> bool:
    """Return whether the kernel counts runs of programs."""
    try:
        with open(_STATISTICS, encoding='ascii') as file:
            return file.read().strip() != '0'
    except OSError:
        return False


def since_boot(nanoseconds: int) -> str:
    """Format a time of CLOCK_BOOTTIME in UTC."""
    offset = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return datetime.datetime.fromtimestamp(
        nanoseconds / 1e9 + offset, datetime.timezone.utc).isoformat(
            timespec='seconds')
