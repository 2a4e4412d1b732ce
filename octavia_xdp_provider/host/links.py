# SPDX-License-Identifier: Apache-2.0
"""The kernel's interfaces, as far as taps and the underlay need them.

A netlink socket belongs to one thread, so each thread has its own ``Links``.
"""

import contextlib
import dataclasses
import typing

from pyroute2 import IPRoute
from pyroute2.netlink import exceptions
from pyroute2.netlink import rtnl

from octavia_xdp_provider.process import netlink_messages

# Reads of pending events before the links are listed again.
_READS_MAX = 64
# Attempts to read a list that changes meanwhile, as when VMs start or stop.
_LISTS_MAX = 20


@dataclasses.dataclass(frozen=True)
class Link:
    """``kind``: the driver's name for it ("tun", "veth", "bridge"), None for
    hardware. ``port_name``: set for representors of a hardware switch, such
    as "pf0vf3"; see devlink-port(8)."""

    index: int
    name: str
    mtu: int
    kind: str | None = None
    port_name: str | None = None


class Snapshot(typing.NamedTuple):
    """``links`` by name; ``addresses``: (index, 4 or 6) → the first address
    that other hosts can use."""

    links: dict[str, Link]
    addresses: dict[tuple[int, int], str]

    def address(self, name: str, version: int) -> str | None:
        link = self.links.get(name)
        return self.addresses.get((link.index, version)) if link else None


class Links:
    """Lists links and addresses of the kernel and waits for changes."""

    def __init__(self) -> None:
        self._netlink = IPRoute()
        self._events: IPRoute | None = None

    def close(self) -> None:
        self._netlink.close()
        if self._events:
            self._events.close()

    def links(self) -> dict[str, Link]:
        """Return links by name.

        :raises OSError: the links cannot be listed.
        """
        with netlink_messages.os_errors():
            return {link.name: link for link in map(
                link_of, _whole(self._netlink.get_links))}

    def snapshot(self) -> Snapshot:
        """:raises OSError: links or addresses cannot be listed."""
        links = self.links()
        with netlink_messages.os_errors():
            return Snapshot(links, netlink_messages.sources_of(
                _whole(self._netlink.get_addr)))

    def watch(self) -> int:
        """Subscribe to changes of links.

        :returns: a file descriptor, readable on changes; see ``drain``.
        """
        if self._events is None:
            self._events = IPRoute()
            self._events.bind(groups=rtnl.RTMGRP_LINK)
        return int(self._events.fileno())

    def drain(self, is_readable: typing.Callable[[], bool]) -> None:
        """Discard pending notifications; the caller lists the links anyway.

        :param is_readable: tells whether the descriptor is readable now.
        """
        assert self._events is not None
        for _ in range(_READS_MAX):
            if not is_readable():
                return
            # An overflow loses notifications, which is harmless here.
            with contextlib.suppress(OSError, exceptions.NetlinkError):
                for _message in self._events.get():
                    pass


def link_of(message: typing.Any) -> Link:
    """Return the Link that a netlink message describes."""
    info = message.get_attr('IFLA_LINKINFO')
    return Link(message['index'], message.get_attr('IFLA_IFNAME'),
                message.get_attr('IFLA_MTU') or 0,
                info.get_attr('IFLA_INFO_KIND') if info else None,
                message.get_attr('IFLA_PHYS_PORT_NAME'))


def _whole(listed: typing.Callable[[], typing.Iterable[typing.Any]]
           ) -> list[typing.Any]:
    """Return a list that did not change while it was read.

    :raises NetlinkDumpInterrupted: every attempt was interrupted.
    """
    for _ in range(_LISTS_MAX - 1):
        with contextlib.suppress(exceptions.NetlinkDumpInterrupted):
            return list(listed())
    return list(listed())
