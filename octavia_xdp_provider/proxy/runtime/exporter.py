# SPDX-License-Identifier: Apache-2.0
"""Answers clients of PROMETHEUS listeners, whose requests HAProxy forwards to
a socket in the load balancer's directory."""

import asyncio
from collections.abc import Callable
from collections.abc import Container
import contextlib
import os
import pathlib
import socket
import stat

from oslo_log import log as logging

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.proxy.runtime import exposition
from octavia_xdp_provider.proxy.runtime import follower

LOG = logging.getLogger(__name__)

PATH = '/metrics'
_TYPE = 'text/plain; version=0.0.4; charset=utf-8'
_HEAD_MAX = 1 << 16
_TIMEOUT_S = 5.0
# Only the load balancer's own HAProxy can enter the directory.
_SOCKET_MODE = 0o666
_BACKLOG = 16
# Clients at a time.
_CLIENTS_MAX = 4


class Exporter:
    """Belongs to the loop's thread.

    :param down: returns ids of members whose checks fail.
    """

    def __init__(self, directory: pathlib.Path, followed: follower.Follower,
                 down: Callable[[], Container[str]]) -> None:
        self._directory = directory
        self._followed = followed
        self._down = down
        self._server: asyncio.AbstractServer | None = None
        self._inode = 0
        self._clients = asyncio.Semaphore(_CLIENTS_MAX)

    async def update(self) -> None:
        """Listen if the load balancer has a listener for metrics."""
        if not self._followed.has_metrics:
            await self.close()
            return
        path = self._directory / proxy_launch.METRICS_SOCKET
        with contextlib.suppress(OSError):
            if self._server and os.lstat(path).st_ino == self._inode:
                return
        await self.close()
        try:
            listening, self._inode = _bind(self._directory)
        except OSError as error:
            LOG.debug('%s cannot be made: %s', path, error)
            return
        self._server = await asyncio.start_unix_server(
            self._serve, sock=listening, backlog=_BACKLOG, limit=_HEAD_MAX)

    async def close(self) -> None:
        if self._server:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader,
                     writer: asyncio.StreamWriter) -> None:
        try:
            async with self._clients:
                await asyncio.wait_for(self._answer(reader, writer),
                                       _TIMEOUT_S)
        except (OSError, asyncio.TimeoutError, asyncio.LimitOverrunError,
                asyncio.IncompleteReadError) as error:
            LOG.debug('%s: no metrics for a client: %s',
                      self._followed.identity, error)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader,
                      writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b'\r\n\r\n')
        method, path, *_rest = [*head.decode('latin-1').split(' ', 2), '', '']
        is_known = (method in ('GET', 'HEAD')
                    and path.partition('?')[0] == PATH)
        status = '200 OK' if is_known else '404 Not Found'
        body = (await self._text()).encode() if is_known else b''
        writer.write(
            f'HTTP/1.1 {status}\r\nContent-Type: {_TYPE}\r\n'
            f'Content-Length: {len(body)}\r\nCache-Control: no-cache\r\n'
            'Connection: close\r\n\r\n'.encode())
        if method != 'HEAD':
            writer.write(body)
        await writer.drain()

    async def _text(self) -> str:
        known = await self._followed.fresh()
        return exposition.render(
            [process.rows for process in known.all()], known.counters.sums(),
            self._down())


def _bind(directory: pathlib.Path) -> tuple[socket.socket, int]:
    """Return a listening socket and its inode.

    The directory belongs to HAProxy, which may put links there.

    :raises OSError: there is no such directory.
    """
    name = proxy_launch.METRICS_SOCKET
    parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
                     | os.O_CLOEXEC)
    listening = socket.socket(socket.AF_UNIX)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)
        listening.bind(f'/proc/self/fd/{parent}/{name}')
        file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC,
                       dir_fd=parent)
        try:
            status = os.fstat(file)
            if not stat.S_ISSOCK(status.st_mode) or (
                    status.st_uid != os.geteuid()):
                raise PermissionError('another file took its place')
            os.chmod(f'/proc/self/fd/{file}', _SOCKET_MODE)
        finally:
            os.close(file)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    finally:
        os.close(parent)
    return listening, status.st_ino
