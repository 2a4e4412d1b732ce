# SPDX-License-Identifier: Apache-2.0
"""Connections of the client that stay open during changes."""

import contextlib
import socket

from lab import namespaces
from lab.fabric import client


class Connections:
    """HTTP/1.1 connections to a VIP; use it in a `with` block."""

    def __init__(self, lab, address, port=80, number=100, timeout=5):
        self._lab = lab
        self._end = (str(address), port)
        self._number = number
        self._timeout = timeout
        self._open = []

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            for _ in range(self._number):
                with namespaces.inside(self._lab, client.CLIENT):
                    connection = socket.create_connection(self._end,
                                                          self._timeout)
                self._open.append(stack.enter_context(connection))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exception):
        self._stack.close()

    @property
    def ports(self):
        """The client's port of each connection."""
        return [connection.getsockname()[1] for connection in self._open]

    def ask(self):
        """Send a request on each connection.

        :returns: for each the name of the member, or the text of an error.
        """
        return [self._ask(connection) for connection in self._open]

    def _ask(self, connection):
        try:
            connection.sendall(b'GET / HTTP/1.1\r\nHost: vip\r\n\r\n')
            answer = b''
            while b'\r\n\r\n' not in answer:
                more = connection.recv(4096)
                if not more:
                    return 'closed'
                answer += more
            head, body = answer.split(b'\r\n\r\n', 1)
            length = next(int(line.split(b':')[1])
                          for line in head.split(b'\r\n')
                          if line.lower().startswith(b'content-length:'))
            while len(body) < length:
                more = connection.recv(4096)
                if not more:
                    return 'closed'
                body += more
        except OSError as error:
            return repr(error)
        return body.decode().strip()
