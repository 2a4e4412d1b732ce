# SPDX-License-Identifier: Apache-2.0
"""Connections of the client that stay open while things change."""

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
                    one = socket.create_connection(self._end, self._timeout)
                self._open.append(stack.enter_context(one))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exception):
        self._stack.close()

    @property
    def ports(self):
        """The client's port of each."""
        return [one.getsockname()[1] for one in self._open]

    def ask(self):
        """Who answers each connection now: names, or what went wrong."""
        return [self._ask(one) for one in self._open]

    def _ask(self, one):
        try:
            one.sendall(b'GET / HTTP/1.1\r\nHost: vip\r\n\r\n')
            answer = b''
            while b'\r\n\r\n' not in answer:
                more = one.recv(4096)
                if not more:
                    return 'closed'
                answer += more
            head, body = answer.split(b'\r\n\r\n', 1)
            length = next(int(line.split(b':')[1])
                          for line in head.split(b'\r\n')
                          if line.lower().startswith(b'content-length:'))
            while len(body) < length:
                more = one.recv(4096)
                if not more:
                    return 'closed'
                body += more
        except OSError as error:
            return repr(error)
        return body.decode().strip()
