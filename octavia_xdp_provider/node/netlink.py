# SPDX-License-Identifier: Apache-2.0
"""The kernel's links, addresses, routes and neighbours through netlink.

A socket must not be shared by threads, so each creates its own ``Kernel``.
"""

import ipaddress
import os
import select
import socket
import typing
from typing import Any

from pyroute2 import IPRoute
from pyroute2 import netlink
from pyroute2.netlink import exceptions
from pyroute2.netlink import rtnl
from pyroute2.netlink.rtnl import ifinfmsg
from pyroute2.netlink.rtnl import ndmsg
from pyroute2.netlink.rtnl import rtmsg

from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.process import netlink_messages

# Returns whether a message matters.
Matters = typing.Callable[[Any], bool]

FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}

_GROUPS = (rtnl.RTMGRP_LINK | rtnl.RTMGRP_NEIGH
           | rtnl.RTMGRP_IPV4_IFADDR | rtnl.RTMGRP_IPV6_IFADDR
           | rtnl.RTMGRP_IPV4_ROUTE | rtnl.RTMGRP_IPV6_ROUTE)
# linux/rtnetlink.h: dump what was learnt about single destinations.
_RTM_F_CLONED = 0x200
# Reads of pending events before a wait returns.
_READS_MAX = 64
_NEIGHBOUR_USABLE = (
    ndmsg.NUD_REACHABLE | ndmsg.NUD_STALE | ndmsg.NUD_DELAY
    | ndmsg.NUD_PROBE | ndmsg.NUD_PERMANENT | ndmsg.NUD_NOARP)


class Vlan(typing.NamedTuple):
    """``protocol``: 0x8100 (802.1Q) or 0x88a8 (802.1ad)."""

    id: int
    protocol: int


class Link(typing.NamedTuple):
    """``carrier``: whether it is up and can send. ``lower``: index of a VLAN's
    lower device. ``forwards``: IP versions of packets received there that the
    kernel may forward. ``carrier_losses``: how often it has lost its carrier.
    ``promiscuous``: whether it accepts frames to other MAC addresses."""

    index: int  # type: ignore[assignment]
    name: str
    mac: str | None
    mtu: int
    carrier: bool
    has_program: bool = False
    lower: int | None = None
    vlan: Vlan | None = None
    forwards: frozenset[int] = frozenset()
    carrier_losses: int = 0
    promiscuous: bool = False


class Route(typing.NamedTuple):
    """A default route. ``next_hop`` may be of another family."""

    version: int
    link: int
    next_hop: str
    metric: int = 0


class Neighbour(typing.NamedTuple):
    """``mac``: None unless it is usable now. ``failed``: does not answer.
    ``stale``: usable, but not being verified. ``confirmed``: has answered the
    kernel's last probe. ``permanent``: configured, and never probed."""

    mac: str | None
    failed: bool = False
    stale: bool = False
    confirmed: bool = False
    permanent: bool = False


class Snapshot(typing.NamedTuple):
    """``links``: by index. ``sources``: (index, version) → first address
    suitable as source. ``neighbours``: by index of the link and address."""

    links: dict[int, Link]
    sources: dict[tuple[int, int], str]
    routes: tuple[Route, ...]
    neighbours: dict[tuple[int, str], Neighbour]


class Kernel:
    """Queries the kernel's state."""

    def __init__(self) -> None:
        self._netlink = IPRoute()
        # Filtered dumps need strict checks, which break pyroute2's own calls.
        self._strict = IPRoute(strict_check=True)

    def close(self) -> None:
        self._netlink.close()
        self._strict.close()

    def own_addresses(self) -> frozenset[str]:
        """Return every address of this node."""
        return frozenset(message.get_attr('IFA_ADDRESS')
                         for message in self._netlink.get_addr())

    def snapshot(self) -> Snapshot:
        """Return the state that uplinks depend on."""
        return Snapshot(
            {message['index']: link_of(message)
             for message in self._netlink.get_links()},
            netlink_messages.sources_of(self._netlink.get_addr()),
            tuple(route for version, family in FAMILIES.items()
                  for message in self._netlink.get_routes(family=family)
                  for route in default_routes_of(version, message)),
            {(message['ifindex'], message.get_attr('NDA_DST')):
             neighbour_of(message)
             for family in FAMILIES.values()
             for message in self._netlink.get_neighbours(family=family)})

    def links_with_program(self) -> list[Link]:
        """Return links with any XDP program, ours or not."""
        return [link for link in map(link_of, self._netlink.get_links())
                if link.has_program]

    def resolve(self, link: int, address: str) -> None:
        """Make the kernel resolve an address, or verify its entry.

        :raises OSError: the kernel refuses.
        """
        version = ipaddress.ip_address(address).version
        with netlink_messages.os_errors():
            self._netlink.neigh('replace', dst=address, ifindex=link,
                                family=FAMILIES[version],
                                flags=ndmsg.NTF_USE, state=ndmsg.NUD_NONE)

    def confirm(self, link: int, address: str) -> None:
        """Make the kernel probe an entry now. Until it answers, the entry is
        not ``confirmed``.

        :raises OSError: the kernel refuses, without an entry for example.
        """
        version = ipaddress.ip_address(address).version
        with netlink_messages.os_errors():
            self._netlink.neigh('change', dst=address, ifindex=link,
                                family=FAMILIES[version],
                                state=ndmsg.NUD_PROBE)

    def route_mtus(self) -> dict[address_policy.Network, int]:
        """Return network → MTU, of routes with an MTU and of those learnt."""
        mtus: dict[address_policy.Network, int] = {}
        for version, family in FAMILIES.items():
            for message in (*self._netlink.get_routes(family=family),
                            *self._learnt(family)):
                mtu = mtu_of(message)
                if mtu:
                    address = message.get_attr('RTA_DST') or (
                        '0.0.0.0' if version == 4 else '::')
                    mtus[ipaddress.ip_network(
                        (address, message['dst_len']))] = mtu
        return mtus

    def _learnt(self, family: int) -> typing.Iterable[Any]:
        request = rtmsg.rtmsg()
        request['family'] = family
        request['flags'] = _RTM_F_CLONED
        learnt: typing.Iterable[Any] = self._strict.nlm_request(
            request, msg_type=rtnl.RTM_GETROUTE,
            msg_flags=netlink.NLM_F_REQUEST | netlink.NLM_F_DUMP)
        return learnt

    def routes(self) -> frozenset[tuple[Any, ...]]:
        """Return all routes, in a form that can be compared."""
        return frozenset(
            (family, message['type'], message['dst_len'],
             message.get_attr('RTA_TABLE'), message.get_attr('RTA_DST'),
             message.get_attr('RTA_OIF'), message.get_attr('RTA_PRIORITY'),
             tuple(hop['oif'] for hop
                   in message.get_attr('RTA_MULTIPATH') or ()))
            for family in FAMILIES.values()
            for message in self._netlink.get_routes(family=family))

    def route_device(self, address: str, mark: int) -> int | None:
        """Return the index of the device that marked packets to an address
        leave by.

        :raises OSError: there is no route.
        """
        version = ipaddress.ip_address(address).version
        for message in self._netlink.route('get', dst=address, mark=mark,
                                           family=FAMILIES[version]):
            device: int | None = message.get_attr('RTA_OIF')
            return device
        return None

    def path_mtu(self, address: str) -> int:
        """Return the MTU of the route to an address; 0 if it has none.

        :raises OSError: there is no route.
        """
        version = ipaddress.ip_address(address).version
        with netlink_messages.os_errors():
            for message in self._netlink.route('get', dst=address,
                                               family=FAMILIES[version]):
                return mtu_of(message)
        return 0


class Events:
    """Waits for changes of the kernel's state."""

    def __init__(self) -> None:
        self._netlink = IPRoute()
        self._netlink.bind(groups=_GROUPS)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._netlink.fileno(), select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)

    def close(self) -> None:
        self._netlink.close()
        os.close(self._wake)

    def wake(self) -> None:
        """End a wait(). For any thread."""
        os.eventfd_write(self._wake, 1)

    def wait(self, timeout_s: float, matters: Matters) -> bool:
        """Wait for an event; return whether it matters.

        :param matters: returns whether a message matters.
        """
        for descriptor, _event in self._poll.poll(1000 * timeout_s):
            if descriptor == self._wake:
                os.eventfd_read(self._wake)
                return True
        return self._drain(matters)

    def _drain(self, matters: Matters) -> bool:
        is_relevant = False
        for _ in range(_READS_MAX):
            if not any(descriptor != self._wake
                       for descriptor, _event in self._poll.poll(0)):
                break
            try:
                for message in self._netlink.get():
                    is_relevant = is_relevant or matters(message)
            except (OSError, exceptions.NetlinkError):
                # The socket's buffer was full, so events were lost.
                is_relevant = True
        return is_relevant


def link_of(message: Any) -> Link:
    """Return the Link in a message."""
    flags = message['flags']
    info = message.get_attr('IFLA_LINKINFO')
    program = message.get_attr('IFLA_XDP')
    vlan = lower = None
    if info and info.get_attr('IFLA_INFO_KIND') == 'vlan':
        data = info.get_attr('IFLA_INFO_DATA')
        vlan = Vlan(data.get_attr('IFLA_VLAN_ID'),
                    data.get_attr('IFLA_VLAN_PROTOCOL') or 0x8100)
        # The index of a device in another namespace is meaningless here.
        if message.get_attr('IFLA_LINK_NETNSID') is None:
            lower = message.get_attr('IFLA_LINK')
    return Link(
        message['index'], message.get_attr('IFLA_IFNAME'),
        message.get_attr('IFLA_ADDRESS'), message.get_attr('IFLA_MTU'),
        bool(flags & ifinfmsg.IFF_UP and flags & ifinfmsg.IFF_LOWER_UP
             and message.get_attr('IFLA_OPERSTATE') in ('UP', 'UNKNOWN')),
        bool(program and program.get_attr('IFLA_XDP_ATTACHED')),
        lower, vlan, _forwards(message.get_attr('IFLA_AF_SPEC')),
        message.get_attr('IFLA_CARRIER_DOWN_COUNT') or 0,
        bool(message.get_attr('IFLA_PROMISCUITY')))


def _forwards(families: Any) -> frozenset[int]:
    """Return the IP versions that a link's settings allow to forward; events
    may lack these settings."""
    v4 = families and families.get_attr('AF_INET')
    v6 = families and families.get_attr('AF_INET6')
    v6 = v6 and v6.get_attr('IFLA_INET6_CONF')
    return frozenset(version for version, settings in ((4, v4), (6, v6))
                     if settings and settings['forwarding'])


def default_routes_of(version: int, message: Any) -> typing.Iterator[Route]:
    """Yield the default routes in a message."""
    if message['dst_len'] or message['type'] != rtnl.rt_type['unicast']:
        return
    metric = message.get_attr('RTA_PRIORITY') or 0
    hops = message.get_attr('RTA_MULTIPATH')
    for hop in hops or [message]:
        via = hop.get_attr('RTA_VIA')
        next_hop = via['addr'] if via else hop.get_attr('RTA_GATEWAY')
        if next_hop:
            yield Route(version, (hop['oif'] if hops
                                  else message.get_attr('RTA_OIF')),
                        next_hop, metric)


def neighbour_of(message: Any) -> Neighbour:
    """Return the Neighbour in a message."""
    state = message['state']
    return Neighbour(
        message.get_attr('NDA_LLADDR') if state & _NEIGHBOUR_USABLE else None,
        bool(state & ndmsg.NUD_FAILED), bool(state & ndmsg.NUD_STALE),
        bool(state & ndmsg.NUD_REACHABLE),
        bool(state & (ndmsg.NUD_PERMANENT | ndmsg.NUD_NOARP)))


def mtu_of(message: Any) -> int:
    """Return the MTU of a route, or 0."""
    metrics = message.get_attr('RTA_METRICS')
    return (metrics and metrics.get_attr('RTAX_MTU')) or 0
