# SPDX-License-Identifier: Apache-2.0
"""What the agents of LB nodes and of hypervisors read of netlink."""

import contextlib
import os
import socket
import typing

from pyroute2.netlink import exceptions
from pyroute2.netlink import rtnl
from pyroute2.netlink.rtnl import ifaddrmsg

_UNSUITABLE_SOURCE = (
    ifaddrmsg.IFA_F_TEMPORARY | ifaddrmsg.IFA_F_TENTATIVE
    | ifaddrmsg.IFA_F_DADFAILED | ifaddrmsg.IFA_F_DEPRECATED)


@contextlib.contextmanager
def os_errors() -> typing.Iterator[None]:
    """Turn the kernel's refusals into OSError."""
    try:
        yield
    except exceptions.NetlinkError as error:
        raise OSError(error.code, os.strerror(error.code)) from error


def sources_of(messages: typing.Iterable[typing.Any]
               ) -> dict[tuple[int, int], str]:
    """Return (link, 4 or 6) → first address suitable as source."""
    sources: dict[tuple[int, int], str] = {}
    for message in messages:
        flags = message.get_attr('IFA_FLAGS') or message['flags']
        # Other hosts cannot reach addresses of link or host scope.
        if message['scope'] < rtnl.rt_scope['link'] and not (
                flags & _UNSUITABLE_SOURCE):
            version = 4 if message['family'] == socket.AF_INET else 6
            sources.setdefault(
                (message['index'], version),
                message.get_attr('IFA_LOCAL')
                or message.get_attr('IFA_ADDRESS'))
    return sources
