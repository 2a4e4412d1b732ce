# SPDX-License-Identifier: Apache-2.0
"""The kernel's interfaces, as far as taps and the underlay need them.

A socket belongs to one thread, so each thread makes a ``Links`` of its own.
"""

import contextlib
import ipaddress
import typing

from pyroute2 import IPRoute
from pyroute2.netlink import exceptions
from pyroute2.netlink import rtnl
from pyroute2.netlink.rtnl import ifaddrmsg

# Of events, before what they mean is looked at.
_READS_MAX = 64
# Of lists that change while they are read, as they do when VMs come and go.
_LISTS_MAX = 20
_UNSUITABLE_SOURCE = (
    ifaddrmsg.IFA_F_TEMPORARY | ifaddrmsg.IFA_F_TENTATIVE
    | ifaddrmsg.IFA_F_DADFAILED | ifaddrmsg.IFA_F_DEPRECATED)


class Link(typing.NamedTuple):
    """``kind``: the driver's word, as "tun", "veth", "bridge"; None for a
    device. ``port_name``: of a representor of a switch in hardware, as
    "pf0vf3", see devlink-port(8)."""

    index: int
    name: str
    mtu: int
    kind: str | None = None
    port_name: str | None = None


class Snapshot(typing.NamedTuple):
    """``links`` by name; ``addresses``: (index, 4 or 6) → first address that
    others can use."""

    links: dict[str, Link]
    addresses: dict[tuple[int, int], str]

    def address(self, name: str, version: int) -> str | None:
        link = self.links.get(name)
        return link and self.addresses.get((link.index, version))


class Links:
    """Asks the kernel, and waits for changes."""

    def __init__(self) -> None:
        self._netlink = IPRoute()
        self._events: IPRoute | None = None

    def close(self) -> None:
        self._netlink.close()
        if self._events:
            self._events.close()

    def links(self) -> dict[str, Link]:
        """By name.

        :raises OSError: the kernel does not say.
        """
        with _os_errors():
            return {one.name: one for one in map(
                link_of, _whole(self._netlink.get_links))}

    def snapshot(self) -> Snapshot:
        """:raises OSError: the kernel does not say."""
        links = self.links()
        with _os_errors():
            return Snapshot(links, addresses_of(_whole(
                self._netlink.get_addr)))

    def watch(self) -> int:
        """Be notified of links that come, change and go.

        :returns: a file descriptor that is readable then; see ``drain``.
        """
        if self._events is None:
            self._events = IPRoute()
            self._events.bind(groups=rtnl.RTMGRP_LINK)
        return int(self._events.fileno())

    def drain(self, is_readable: typing.Callable[[], bool]) -> None:
        """Take what has been notified: the links are looked at anyway.

        :param is_readable: whether the descriptor is, now.
        """
        assert self._events is not None
        for _ in range(_READS_MAX):
            if not is_readable():
                return
            # More than the socket holds: some were lost, which is the same.
            with contextlib.suppress(OSError, exceptions.NetlinkError):
                for _message in self._events.get():
                    pass


def link_of(message: typing.Any) -> Link:
    """A Link from a message."""
    info = message.get_attr('IFLA_LINKINFO')
    return Link(message['index'], message.get_attr('IFLA_IFNAME'),
                message.get_attr('IFLA_MTU') or 0,
                info.get_attr('IFLA_INFO_KIND') if info else None,
                message.get_attr('IFLA_PHYS_PORT_NAME'))


def addresses_of(messages: typing.Iterable[typing.Any]
                 ) -> dict[tuple[int, int], str]:
    """The first suitable address by (link, version)."""
    found: dict[tuple[int, int], str] = {}
    for message in messages:
        flags = message.get_attr('IFA_FLAGS') or message['flags']
        # A scope of a link or a host is no address for others.
        if message['scope'] < rtnl.rt_scope['link'] and not (
                flags & _UNSUITABLE_SOURCE):
            text = (message.get_attr('IFA_LOCAL')
                    or message.get_attr('IFA_ADDRESS'))
            version = ipaddress.ip_address(text).version
            found.setdefault((message['index'], version), text)
    return found


def _whole(listed: typing.Callable[[], typing.Iterable[typing.Any]]
           ) -> list[typing.Any]:
    """A list during which nothing has changed.

    :raises NetlinkDumpInterrupted: there was none.
    """
    for _ in range(_LISTS_MAX - 1):
        with contextlib.suppress(exceptions.NetlinkDumpInterrupted):
            return list(listed())
    return list(listed())


@contextlib.contextmanager
def _os_errors() -> typing.Iterator[None]:
    try:
        yield
    except exceptions.NetlinkError as error:
        raise OSError(error.code, str(error)) from error
