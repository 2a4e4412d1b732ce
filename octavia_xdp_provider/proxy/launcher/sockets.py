# SPDX-License-Identifier: Apache-2.0
"""The listening sockets of load balancers, which HAProxy inherits.

They are the launcher's, so that connections wait in the kernel while HAProxy
is replaced or started again. A launcher that starts again gets them from
systemd, which stores them, or from the HAProxy that runs.
"""

import base64
from collections.abc import Iterable
import contextlib
import ctypes
import fcntl
import hashlib
import ipaddress
import os
import socket
import struct
from typing import Protocol

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.proxy.launcher import namespace

# Connections that wait while nobody accepts them; the kernel's own limit is
# net.core.somaxconn.
_BACKLOG = 4096
_IP_FREEBIND = 15
_IPV6_FREEBIND = 78
_SIOCGSKNS = 0x894c
_SYS_PIDFD_GETFD = 438

_libc = ctypes.CDLL(None, use_errno=True)

# Address and port.
Endpoint = tuple[str, int]


class Store(Protocol):
    """Who keeps descriptors while the launcher does not run."""

    def store(self, name: str, descriptor: int) -> None:
        """Keep a copy of a descriptor under a name."""

    def forget(self, name: str) -> None:
        """Close the copies of this name."""


def endpoint(described: proxy_launch.ListeningSocket
             | proxy_launch.Endpoint) -> Endpoint:
    return (str(ipaddress.ip_address(described['address'])),
            described['port'])


def endpoints(launch: proxy_launch.Launch | None) -> list[Endpoint]:
    """Return where a load balancer listens, in its own order."""
    return [endpoint(item) for item in launch['sockets']] if launch else []


class Sockets:
    """The sockets of all load balancers, by id and endpoint."""

    def __init__(self, traffic: namespace.Namespace, store: Store) -> None:
        self._namespace = traffic
        self._store = store
        self._open: dict[str, dict[Endpoint, socket.socket]] = {}
        # Those that systemd has kept, by name, until somebody wants them.
        self._stored: dict[str, int] = {}

    def listening(self, identity: str) -> bool:
        """Return whether clients can connect to a load balancer."""
        return any(map(_listens, self._open.get(identity, {}).values()))

    def open(self, identity: str, wanted: Iterable[Endpoint], listen: bool
             ) -> set[Endpoint]:
        """Open those that are missing, and let them listen.

        :param listen: whether clients can connect from now on; what already
            listens goes on.
        :returns: where one was opened or began to listen.
        :raises OSError: one cannot be opened, with its address and port.
        """
        held = self._open.setdefault(identity, {})
        opened = set()
        for point in wanted:
            if point not in held:
                if not self._take_stored(identity, point):
                    held[point] = self._bind(point)
                    opened.add(point)
                self._store.store(_name(identity, point),
                                  held[point].fileno())
            # A process that was taken over may have shut it down; HAProxy
            # no longer accepts anything then.
            if listen and not _listens(held[point]):
                held[point].listen(_BACKLOG)
                opened.add(point)
        return opened

    def descriptors(self, identity: str, wanted: Iterable[Endpoint]
                    ) -> list[int]:
        """Return the descriptors of open sockets."""
        held = self._open[identity]
        return [held[point].fileno() for point in wanted]

    def keep(self, identity: str, kept: Iterable[Endpoint]) -> None:
        """Close all other sockets of a load balancer."""
        for point in set(self._open.get(identity, ())) - set(kept):
            self._close(identity, point)
        if not self._open.get(identity):
            self._open.pop(identity, None)

    def receive(self, stored: Iterable[tuple[str, int]]) -> None:
        """Note what systemd has kept, by name and descriptor."""
        for name, descriptor in stored:
            os.set_inheritable(descriptor, False)
            if name in self._stored:
                os.close(descriptor)
            else:
                self._stored[name] = descriptor

    def discard_stored(self) -> None:
        """Close what systemd has kept and nobody wants."""
        for name, descriptor in self._stored.items():
            self._store.forget(name)
            os.close(descriptor)
        self._stored.clear()

    def _take_stored(self, identity: str, point: Endpoint) -> bool:
        descriptor = self._stored.pop(_name(identity, point), None)
        if descriptor is None:
            return False
        with contextlib.suppress(OSError):
            taken = socket.socket(fileno=descriptor)
            if self._take(identity, taken) == point:
                return True
            taken.close()
        return False

    def take_from(self, identity: str, pid: int, count: int) -> None:
        """Take those that a running HAProxy has at the places where it
        inherited them. It is not trusted: each is looked at."""
        with contextlib.suppress(OSError):
            process = os.pidfd_open(pid)
            try:
                for place in range(count):
                    copy = _libc.syscall(
                        _SYS_PIDFD_GETFD, process,
                        proxy_launch.FIRST_DESCRIPTOR + place, 0)
                    if copy >= 0:
                        self._take_copy(identity, copy)
            finally:
                os.close(process)

    def _take_copy(self, identity: str, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        try:
            taken = socket.socket(fileno=descriptor)
        except OSError:
            os.close(descriptor)
            return
        point = self._take(identity, taken)
        if point is None:
            taken.close()
            return
        kept = self._stored.pop(_name(identity, point), None)
        if kept is None:
            self._store.store(_name(identity, point), descriptor)
        else:
            os.close(kept)

    def _take(self, identity: str, taken: socket.socket) -> Endpoint | None:
        """Hold a socket unless it is unfit, or another one is held."""
        try:
            if (taken.family not in (socket.AF_INET, socket.AF_INET6)
                    or taken.type != socket.SOCK_STREAM
                    or _is_connected(taken) or not self._is_inside(taken)):
                return None
            address, port = taken.getsockname()[:2]
        except OSError:
            return None
        held = self._open.setdefault(identity, {})
        point = (str(ipaddress.ip_address(address)), port)
        if point in held:
            return None
        os.set_inheritable(taken.fileno(), False)
        held[point] = taken
        return point

    def _is_inside(self, taken: socket.socket) -> bool:
        other = fcntl.ioctl(taken.fileno(), _SIOCGSKNS)
        try:
            return os.path.samestat(os.fstat(other),
                                    os.stat(self._namespace.path))
        finally:
            os.close(other)

    def _bind(self, point: Endpoint) -> socket.socket:
        address, port = point
        is_ipv6 = ipaddress.ip_address(address).version == 6
        with self._namespace.entered():
            made = socket.socket(
                socket.AF_INET6 if is_ipv6 else socket.AF_INET,
                socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # The address need not be there yet.
            if is_ipv6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                made.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)
            else:
                made.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
            made.bind(point)
        except OSError as error:
            made.close()
            raise OSError(error.errno, f'{address} port {port}: '
                          f'{error.strerror}') from error
        return made

    def _close(self, identity: str, point: Endpoint) -> None:
        held = self._open[identity].pop(point, None)
        if held is not None:
            self._store.forget(_name(identity, point))
            # HAProxy's masters have what they inherited until they end. It
            # must neither take connections nor prevent another socket here.
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
            held.close()


def _listens(held: socket.socket) -> bool:
    return bool(struct.unpack('i', held.getsockopt(
        socket.SOL_SOCKET, socket.SO_ACCEPTCONN, 4))[0])


def _is_connected(taken: socket.socket) -> bool:
    with contextlib.suppress(OSError):
        taken.getpeername()
        return True
    return False


def _name(identity: str, point: Endpoint) -> str:
    """Return a name for systemd. It is short, as all names together are one
    environment variable of the next launcher, of at most 128 KiB."""
    text = f'{identity} {point}'.encode()
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()[:6]).decode()
